// Finds the longest token at a place in a text; built once from all spellings.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sampling/token_id.h"

namespace remontoir {

class TokenTrie {
 public:
  struct Entry {
    std::string_view spelling;  // empty ones are ignored
    TokenId token;
  };
  struct Match {
    size_t length;
    TokenId token;
  };

  // Of equal spellings the last one counts. The spellings need not outlive the constructor.
  explicit TokenTrie(std::vector<Entry> entries);

  // The longest token that the text begins with.
  std::optional<Match> Longest(std::string_view text) const;

  // Calls visit(length, token) for every token that the text begins with, shortest first.
  template <class Visit>
  void ForEachPrefix(std::string_view text, Visit visit) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = Child(node, static_cast<uint8_t>(text[i]));
      if (node == 0) return;
      if (nodes_[node].token != kNoToken) visit(i + 1, nodes_[node].token);
    }
  }

 private:
  // A node's children lie side by side, sorted by label. Node 0 is the root.
  struct Node {
    uint32_t first_child = 0;
    uint16_t children = 0;
    uint8_t label = 0;
    TokenId token = kNoToken;
  };

  uint32_t Child(uint32_t node, uint8_t label) const;  // 0: none

  std::vector<Node> nodes_;
  std::array<uint32_t, 256> root_children_{};  // by label; 0: none
};

}  // namespace remontoir
