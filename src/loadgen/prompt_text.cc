// Words of everyday English, short enough to be one token in byte-pair vocabularies.
#include "loadgen/prompt_text.h"

#include <array>
#include <string_view>

#include "base/random.h"

namespace remontoir {
namespace {

constexpr uint64_t kWordStream = 6;

constexpr auto kWords = std::to_array<std::string_view>({
    "air",   "all",   "and",   "arm",   "art",   "back",  "ball",  "bank",  "bed",   "best",
    "big",   "bird",  "black", "blue",  "boat",  "body",  "book",  "box",   "boy",   "bread",
    "bus",   "but",   "call",  "camp",  "car",   "card",  "care",  "case",  "cat",   "chair",
    "city",  "class", "clean", "clear", "close", "cloud", "cold",  "come",  "cook",  "cool",
    "corn",  "cost",  "cup",   "cut",   "dark",  "day",   "deep",  "desk",  "dog",   "door",
    "down",  "draw",  "dry",   "each",  "early", "earth", "east",  "easy",  "eat",   "egg",
    "end",   "even",  "eye",   "face",  "fact",  "fall",  "farm",  "fast",  "field", "fire",
    "first", "fish",  "five",  "flat",  "floor", "fly",   "food",  "foot",  "for",   "form",
    "four",  "free",  "fresh", "from",  "full",  "game",  "gate",  "girl",  "give",  "glass",
    "gold",  "good",  "grass", "great", "green", "group", "hair",  "half",  "hall",  "hand",
    "hard",  "hat",   "have",  "head",  "heart", "heat",  "help",  "here",  "high",  "hill",
    "home",  "horse", "hot",   "hour",  "house", "ice",   "iron",  "join",  "jump",  "just",
    "keep",  "key",   "kind",  "king",  "lake",  "land",  "large", "last",  "late",  "law",
    "leaf",  "learn", "left",  "leg",   "life",  "light", "line",  "list",  "long",  "look",
    "love",  "low",   "make",  "man",   "map",   "mark",  "meal",  "milk",  "mind",  "moon",
    "more",  "most",  "move",  "much",  "music", "name",  "near",  "neck",  "new",   "news",
    "next",  "night", "nine",  "north", "nose",  "note",  "now",   "oil",   "old",   "one",
    "only",  "open",  "over",  "page",  "paint", "paper", "park",  "part",  "path",  "plan",
    "plant", "play",  "point", "pool",  "post",  "pull",  "push",  "rain",  "read",  "red",
    "rest",  "rice",  "rich",  "ride",  "right", "ring",  "rise",  "river", "road",  "rock",
    "roof",  "room",  "root",  "rose",  "round", "run",   "salt",  "sand",  "sea",   "seat",
    "seed",  "send",  "ship",  "shoe",  "shop",  "short", "show",  "side",  "sing",  "six",
    "sky",   "slow",  "small", "snow",  "soft",  "song",  "south", "stand", "star",  "stay",
    "step",  "stone", "sun",   "table", "talk",  "tall",  "team",  "ten",   "time",  "top",
    "town",  "tree",  "true",  "turn",  "two",   "wall",  "warm",  "water", "west",  "wind",
});

}  // namespace

std::string PromptText(uint64_t seed, int64_t index, int32_t tokens) {
  // A stream of its own for each prompt; the words come from the low bits of its draws.
  const CounterRandom streams(seed, kWordStream);
  const CounterRandom words(streams.Bits(static_cast<uint64_t>(index)), kWordStream);
  std::string text;
  text.reserve(static_cast<size_t>(tokens) * 6);
  for (int32_t i = 0; i < tokens; ++i) {
    if (i > 0) text += ' ';
    text += kWords[words.Bits(static_cast<uint64_t>(i)) % kWords.size()];
  }
  return text;
}

}  // namespace remontoir
