// Facts that hold after any operations: pool and leases do what a plain model foretells.
#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "base/random.h"
#include "kv/kv_pool.h"
#include "tests/unit/kv/kv_model.h"

namespace remontoir {
namespace {

constexpr int kOperations = 100'000;
// Fewer pages than children that are scanned, so that the model needs no bound for that.
constexpr int kPages = 61;
constexpr int kLeases = 9;
constexpr int kPagesMax = 7;

// What is asked for: a prompt whose tokens go on as what the sequence will draw.
struct Plan {
  uint64_t salt = 0;
  bool bypass = false;
  Tokens tokens;
  size_t prompt = 0;
  int32_t pages = 0;
};

struct Running {
  Plan plan;
  std::vector<int> pages;
  std::vector<int> nodes;  // the published pages it references
  size_t computed = 0;
  std::optional<TailCopy> pending;
};

class KvRandomOperations : public testing::TestWithParam<uint64_t> {
 protected:
  KvRandomOperations() : random_(GetParam(), 0) {
    for (int i = 0; i < kLeases; ++i) leases_.emplace_back(pool_, kPages);
    running_.resize(kLeases);
  }

  uint64_t Draw(uint64_t bound) { return random_.Bits(draws_++) % bound; }

  // Two tokens only: prompts that part still go on alike for a while.
  int32_t TokenOf(uint64_t stream, size_t position) const {
    return static_cast<int32_t>(CounterRandom(7, stream).Bits(position) % 2);
  }

  Plan DrawPlan() {
    Plan plan;
    plan.salt = Draw(3);
    plan.bypass = Draw(8) == 0;
    plan.prompt = 1 + Draw(5 * kKvPageTokens);
    plan.pages = std::min<int32_t>(
        kPagesMax, PagesFor(static_cast<int64_t>(plan.prompt + Draw(2 * kKvPageTokens))));
    const uint64_t stem = Draw(4);
    const uint64_t own = 100 + Draw(4);
    const uint64_t parts = Draw(kPagesMax * kKvPageTokens);
    for (size_t i = 0; i < size_t{kPagesMax} * kKvPageTokens; ++i) {
      plan.tokens.push_back(TokenOf(i < parts ? stem : own, i));
    }
    return plan;
  }

  static PrefixKey KeyOf(const Plan& plan) { return {plan.salt, 5}; }
  static Tokens PromptOf(const Plan& plan) { return KvModel::Beginning(plan.tokens, plan.prompt); }

  KvModel::Match Foretell(const Plan& plan) const {
    return plan.bypass ? KvModel::Match{} : model_.Lookup(plan.salt, PromptOf(plan));
  }
  int Needed(const Plan& plan) const {
    int needed = plan.pages;
    for (const int page : Foretell(plan).pages) {
      if (model_.published.at(page).references > 0) --needed;
    }
    return needed;
  }

  // `count` pages go from the model's free and cached ones to lease i, as the pool chose.
  void TakePages(int i, size_t count) {
    while (model_.free.size() < count) {
      const int evicted = model_.Oldest();
      ASSERT_GE(evicted, 0);
      ASSERT_FALSE(model_.HasChildren(evicted)) << "evicted above its children";
      model_.Unpublish(evicted);
      ++evictions_;
    }
    Running& at = running_[i];
    const auto pages = leases_[i].pages();
    ASSERT_EQ(pages.size(), at.pages.size() + count);
    for (size_t k = 0; k < at.pages.size(); ++k) ASSERT_EQ(Index(pages[k]), at.pages[k]);
    while (at.pages.size() < pages.size()) {
      const int page = Index(pages[at.pages.size()]);
      ASSERT_EQ(model_.free.erase(page), 1u) << "page " << page << " has an owner";
      model_.owner[page] = i;
      model_.contents[page].clear();
      at.pages.push_back(page);
    }
  }

  void CheckMatch(const Plan& plan, const KvModel::Match& expected, const PrefixMatch& match) {
    ASSERT_EQ(match.page_count, static_cast<int>(expected.pages.size()));
    ASSERT_EQ(match.tail_tokens, expected.tail_tokens);
    ASSERT_EQ(Index(match.tail_source), expected.tail_source);
    ASSERT_LT(match.tokens(), static_cast<int>(plan.prompt));
    for (size_t k = 0; k < expected.pages.size(); ++k) {
      const int page = expected.pages[k];
      const auto begin = plan.tokens.begin() + static_cast<std::ptrdiff_t>(k * kKvPageTokens);
      ASSERT_EQ(model_.contents.at(page), Tokens(begin, begin + kKvPageTokens));
      ASSERT_EQ(model_.published.at(page).salt, plan.salt);
    }
  }

  // Admits a plan into the empty lease i, if there is room.
  void Admit(int i, const Plan& plan, bool copies_now, bool& admitted) {
    KvLease& lease = leases_[i];
    const KvModel::Match expected = Foretell(plan);
    PrefixMatch match;
    if (!plan.bypass) match = pool_.prefix_cache().Match(KeyOf(plan), PromptOf(plan));
    if (!plan.bypass) {
      ASSERT_NO_FATAL_FAILURE(CheckMatch(plan, expected, match));
    }
    const int needed = Needed(plan);
    admitted = needed <= model_.Available();
    ASSERT_EQ(pool_.PagesNeeded(match, plan.pages), needed);
    ASSERT_EQ(pool_.CanReserve(match, plan.pages), admitted);
    ASSERT_EQ(lease.Reserve(match, plan.pages), admitted);
    if (!admitted) {
      ++refusals_;
      ASSERT_TRUE(lease.pages().empty());
      return;
    }
    Running& at = running_[i];
    at.plan = plan;
    at.pages = expected.pages;
    at.nodes = expected.pages;
    for (const int page : expected.pages) model_.AddReference(page);
    const int own = plan.pages - match.page_count;
    const bool keeps_tail =
        expected.tail_tokens > 0 &&
        (model_.published.at(expected.tail_source).references > 0 || model_.Available() > own);
    if (keeps_tail) model_.AddReference(expected.tail_source);
    ASSERT_NO_FATAL_FAILURE(TakePages(i, static_cast<size_t>(own)));
    ASSERT_EQ(lease.tail().tokens, keeps_tail ? expected.tail_tokens : 0);
    at.computed = static_cast<size_t>(lease.tokens_matched());
    ASSERT_EQ(at.computed, expected.pages.size() * kKvPageTokens + lease.tail().tokens);
    if (keeps_tail) at.pending = lease.tail();
    if (copies_now) {
      ASSERT_NO_FATAL_FAILURE(CopyTail(i));
    }
  }

  void CopyTail(int i) {
    Running& at = running_[i];
    if (!at.pending) return;
    const Tokens& source = model_.contents.at(Index(at.pending->source));
    ASSERT_GE(source.size(), static_cast<size_t>(at.pending->tokens));
    Tokens& target = model_.contents.at(Index(at.pending->target));
    ASSERT_TRUE(target.empty());
    target = KvModel::Beginning(source, static_cast<size_t>(at.pending->tokens));
    const auto begin =
        at.plan.tokens.begin() + static_cast<std::ptrdiff_t>(at.nodes.size() * kKvPageTokens);
    ASSERT_TRUE(std::equal(target.begin(), target.end(), begin)) << "another prompt's tail";
    leases_[i].TailCopied();
    model_.DropReference(Index(at.pending->source));
    at.pending.reset();
    ++tails_;
  }

  // Two that fit together by what each needs now are both admitted, whatever the first evicts.
  void AdmitTwo(int i, int j) {
    const Plan first = DrawPlan();
    const Plan second = DrawPlan();
    const bool both = Needed(first) + Needed(second) <= model_.Available();
    bool admitted = false;
    ASSERT_NO_FATAL_FAILURE(Admit(i, first, true, admitted));
    ASSERT_NO_FATAL_FAILURE(Admit(j, second, true, admitted));
    ASSERT_TRUE(admitted || !both);
  }

  void Compute(int i) {
    Running& at = running_[i];
    const size_t room = std::min(at.pages.size() * kKvPageTokens, at.plan.tokens.size());
    for (size_t left = 1 + Draw(90); left > 0 && at.computed < room; --left, ++at.computed) {
      const int page = at.pages[at.computed / kKvPageTokens];
      ASSERT_EQ(model_.owner.at(page), i);
      ASSERT_EQ(pool_.state(KvPageId(page)), KvPageState::kLeased) << "rewrites a published page";
      ASSERT_EQ(model_.contents[page].size(), at.computed % kKvPageTokens);
      model_.contents[page].push_back(at.plan.tokens[at.computed]);
    }
  }

  void Grow(int i) {
    const bool grows = model_.Available() > 0 && running_[i].pages.size() < size_t{kPages};
    ASSERT_EQ(leases_[i].Grow(), grows);
    if (grows) {
      ASSERT_NO_FATAL_FAILURE(TakePages(i, 1));
    }
  }

  void ForetellPublished(int i) {
    Running& at = running_[i];
    while ((at.nodes.size() + 1) * kKvPageTokens <= at.computed) {
      const size_t k = at.nodes.size();
      const Tokens path = KvModel::Beginning(at.plan.tokens, (k + 1) * kKvPageTokens);
      const int parent = k == 0 ? -1 : at.nodes[k - 1];
      const int twin = model_.Find(at.plan.salt, path);
      if (twin >= 0) {
        model_.AddReference(twin);
        at.nodes.push_back(twin);
        ++twins_;
      } else {
        replaced_ += model_.Publish(at.plan.salt, parent, at.pages[k], path);
        at.nodes.push_back(at.pages[k]);
      }
    }
  }

  void Publish(int i) {
    Running& at = running_[i];
    ForetellPublished(i);
    leases_[i].Publish(std::span(at.plan.tokens).first(at.computed));
    ASSERT_EQ(leases_[i].pages_published(), static_cast<int>(at.nodes.size()));
    ASSERT_NO_FATAL_FAILURE(TakePages(i, 0));
  }

  void ForetellReleased(int i) {
    Running& at = running_[i];
    if (at.pending) model_.DropReference(Index(at.pending->source));
    for (size_t k = at.pages.size(); k-- > 0;) {
      if (k < at.nodes.size()) model_.DropReference(at.nodes[k]);
      if (k < at.nodes.size() && at.nodes[k] == at.pages[k]) continue;
      ASSERT_EQ(model_.owner.at(at.pages[k]), i);
      model_.owner.erase(at.pages[k]);
      model_.contents.erase(at.pages[k]);
      model_.free.insert(at.pages[k]);
    }
    at = {};
  }

  void Finish(int i) {
    Running& at = running_[i];
    ForetellPublished(i);
    const size_t full = at.nodes.size() * kKvPageTokens;
    const Tokens tokens = KvModel::Beginning(at.plan.tokens, at.computed);
    if (full < at.computed) {
      const auto rest = std::span(tokens).subspan(full);
      const int parent = at.nodes.empty() ? -1 : at.nodes.back();
      const auto [covering, length] = model_.Longest(at.plan.salt, parent, rest);
      if (static_cast<size_t>(length) == rest.size()) {
        model_.AddReference(covering);
        model_.DropReference(covering);
      } else {
        const int page = at.pages[at.nodes.size()];
        replaced_ += model_.Publish(at.plan.salt, parent, page, tokens);
        at.nodes.push_back(page);
      }
    }
    leases_[i].PublishAndRelease(tokens);
    ForetellReleased(i);
  }

  void Cancel(int i) {
    leases_[i].Release();
    ForetellReleased(i);
  }

  // One lease that wants nearly all there is.
  void Press(int i) {
    Plan plan = DrawPlan();
    plan.bypass = true;
    plan.pages = std::min<int32_t>(
        kPages,
        std::max(model_.Available() - static_cast<int>(Draw(4)) + static_cast<int>(Draw(2)), 1));
    bool admitted = false;
    Admit(i, plan, true, admitted);
  }

  void Clear() {
    pool_.ClearCache();
    for (int page = model_.Oldest(); page >= 0; page = model_.Oldest()) model_.Unpublish(page);
  }

  void Step() {
    const int i = static_cast<int>(Draw(kLeases));
    const int j = static_cast<int>(Draw(kLeases));
    if (Draw(4000) == 0) return Clear();
    if (running_[i].pages.empty()) {
      if (Draw(40) == 0) return Press(i);
      if (i != j && running_[j].pages.empty()) return AdmitTwo(i, j);
      bool admitted = false;
      return Admit(i, DrawPlan(), Draw(4) > 0, admitted);
    }
    const bool shows = !running_[i].plan.bypass;
    const uint64_t what = Draw(16);
    if (what == 0) return Cancel(i);
    ASSERT_NO_FATAL_FAILURE(CopyTail(i));
    if (what <= 2) return shows ? Finish(i) : Cancel(i);
    if (what <= 4) return Grow(i);
    ASSERT_NO_FATAL_FAILURE(Compute(i));
    if (shows && Draw(4) > 0) Publish(i);
  }

  void CheckCounts() {
    const KvStats stats = pool_.stats();
    ASSERT_EQ(stats.pages_free, static_cast<int>(model_.free.size()));
    ASSERT_EQ(stats.pages_leased, static_cast<int>(model_.owner.size()));
    ASSERT_EQ(stats.pages_cached, model_.Unreferenced());
    ASSERT_EQ(stats.pages_shared,
              static_cast<int>(model_.published.size()) - model_.Unreferenced());
    ASSERT_EQ(stats.pages_free + stats.pages_leased + stats.pages_cached + stats.pages_shared,
              kPages);
    ASSERT_EQ(stats.evictions, evictions_);
  }

  void CheckEveryPage() {
    const PrefixCache& cache = pool_.prefix_cache();
    for (int number = 0; number < kPages; ++number) {
      const auto page = KvPageId(number);
      const auto found = model_.published.find(number);
      ASSERT_EQ(cache.IsPublished(page), found != model_.published.end());
      ASSERT_EQ(pool_.state(page) == KvPageState::kFree, model_.free.contains(number));
      ASSERT_EQ(pool_.state(page) == KvPageState::kLeased, model_.owner.contains(number));
      if (found == model_.published.end()) continue;
      ASSERT_EQ(Index(cache.parent(page)), found->second.parent);
      ASSERT_EQ(cache.references(page), found->second.references);
      const auto tokens = cache.tokens(page);
      ASSERT_EQ(model_.contents.at(number), Tokens(tokens.begin(), tokens.end()))
          << "a published page was written";
      const Tokens& path = found->second.path;
      ASSERT_TRUE(std::equal(tokens.rbegin(), tokens.rend(), path.rbegin()));
      if (found->second.parent >= 0) {
        ASSERT_TRUE(model_.published.contains(found->second.parent)) << "a child without a parent";
      }
    }
  }

  const CounterRandom random_;
  uint64_t draws_ = 0;
  KvPool pool_{kPages, GetParam()};
  std::deque<KvLease> leases_;
  KvModel model_{kPages};
  std::vector<Running> running_;
  int64_t evictions_ = 0;
  int64_t refusals_ = 0;
  int64_t tails_ = 0;
  int64_t twins_ = 0;
  int64_t replaced_ = 0;
};

TEST_P(KvRandomOperations, DoWhatThePlainModelForetells) {
  for (int step = 0; step < kOperations; ++step) {
    ASSERT_NO_FATAL_FAILURE(Step()) << "operation " << step;
    ASSERT_NO_FATAL_FAILURE(CheckCounts()) << "operation " << step;
    if (step % 32 == 0) {
      ASSERT_NO_FATAL_FAILURE(CheckEveryPage()) << "operation " << step;
    }
  }
  // Every kind of event came up often.
  const KvStats stats = pool_.stats();
  for (const int64_t count :
       {evictions_, refusals_, tails_, twins_, replaced_, stats.hits, stats.misses}) {
    EXPECT_GT(count, 200);
  }
  for (int i = 0; i < kLeases; ++i) Cancel(i);
  ASSERT_NO_FATAL_FAILURE(CheckEveryPage());
  EXPECT_EQ(pool_.pages_available(), kPages);
  Clear();
  EXPECT_EQ(pool_.pages_free(), kPages);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KvRandomOperations, testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace remontoir
