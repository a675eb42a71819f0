#include "ranks/ranks.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <memory>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "ranks/launch.h"
#include "support/local_ranks.h"

namespace vitrine::test {
namespace {

using testing::HasSubstr;

TEST(Ranks, OneProcessIsTheOnlyRank) {
  Ranks ranks;
  EXPECT_TRUE(ranks.is_alone() && ranks.is_first());
  EXPECT_EQ(ranks.broadcast("text"), "text");
  EXPECT_EQ(ranks.gather_values<int>(std::vector{1, 2}), (std::vector{1, 2}));
  EXPECT_EQ(ranks.together([] { return 3; }), 3);
  EXPECT_THROW(ranks.together([] { throw BadInput("a", "b"); }), BadInput);
  EXPECT_EQ(ranks.take_traffic().bytes_sent, 0);
  ranks.finish();
}

TEST(Ranks, EveryRankReceivesThePartsOfAll) {
  for (const int n : {2, 3, 5, 8}) {
    run_local_ranks(n, [n](Ranks& ranks) {
      std::vector<std::byte> all(static_cast<std::size_t>(n * (n - 1) / 2));
      std::vector<std::int64_t> bounds = {0};  // rank r has r bytes
      for (int r = 0; r < n; ++r) bounds.push_back(bounds.back() + r);
      for (int i = 0; i < ranks.rank(); ++i) {
        all[static_cast<std::size_t>(bounds[static_cast<std::size_t>(ranks.rank())] + i)] = std::byte(ranks.rank());
      }
      ranks.wait(ranks.gather(all, bounds, Channel::weights));
      std::size_t at = 0;
      for (int r = 0; r < n; ++r) {
        for (int i = 0; i < r; ++i) EXPECT_EQ(all[at++], std::byte(r));
      }
      EXPECT_EQ(ranks.broadcast(ranks.is_first() ? "from rank 0" : ""), "from rank 0");
      EXPECT_FALSE(ranks.host(n - 1).empty());
    });
  }
}

TEST(Ranks, MessagesOfAChannelArriveInOrderAndAreCounted) {
  run_local_ranks(2, [](Ranks& ranks) {
    ranks.take_traffic();
    std::vector<int> numbers(10);
    Tickets tickets;
    if (ranks.is_first()) std::iota(numbers.begin(), numbers.end(), 0);
    for (int& number : numbers) {
      const auto bytes = std::as_writable_bytes(std::span(&number, 1));
      const Tickets more =
          ranks.is_first() ? ranks.send(1, bytes, Channel::gradients) : ranks.receive(0, bytes, Channel::gradients);
      tickets.insert(tickets.end(), more.begin(), more.end());
    }
    ranks.wait(tickets);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(numbers[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(ranks.take_traffic().bytes_sent, ranks.is_first() ? 40 : 0);
  });
}

TEST(Ranks, AnErrorOfOneIsAnErrorOfAllThatRankZeroReports) {
  for (const int failing : {0, 2}) {
    try {
      run_local_ranks(3, [failing](Ranks& ranks) {
        ranks.together([&] {
          if (ranks.rank() == failing) throw BadInput("shards", "expected tokens, got none");
        });
        ADD_FAILURE() << "a rank goes on";
      });
      ADD_FAILURE();
    } catch (const BadInput& e) {
      EXPECT_THAT(e.what(), HasSubstr("[shards] expected tokens, got none"));
      EXPECT_EQ(std::string(e.what()).starts_with("[rank 2 on "), failing == 2) << e.what();
    }
  }
}

TEST(Ranks, ASilentRankIsLost) {
  try {
    run_local_ranks(
        3, [](Ranks&) { ADD_FAILURE() << "a rank does not miss the last one"; }, 3, 1);
    ADD_FAILURE();
  } catch (const PeerLost& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 2 on a host that has not answered has been silent for 3 s"));
  }
}

/// Rank 0 of two. Its messages are done at once, and poll() returns only while `is_stuck` is false.
class StuckTransport : public Transport {
 public:
  explicit StuckTransport(const std::atomic<bool>& is_stuck) : is_stuck_(is_stuck) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void send(int, int, std::span<const std::byte>, std::shared_ptr<Message> message) override {
    message->is_done = true;
  }
  void receive(int, int, std::span<std::byte>, std::shared_ptr<Message> message) override { message->is_done = true; }
  bool poll() override {
    while (is_stuck_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return false;
  }
  void finish() override {}
  void abort(int) override {}

 private:
  const std::atomic<bool>& is_stuck_;
};

TEST(Ranks, ATransportThatDoesNotReturnIsNoticed) {
  std::atomic<bool> is_stuck = false, is_ending = false;
  std::atomic<int> n_told = 0;
  Ranks ranks(std::make_unique<StuckTransport>(is_stuck), 60);
  ranks.end_if_stuck(is_ending, [&](const std::string& text) {
    EXPECT_THAT(text, HasSubstr("has died or does not answer"));
    ++n_told;
    is_stuck = false;
  });
  is_stuck = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(900));
  EXPECT_EQ(n_told, 0) << "the limit is 10 s while the run goes on";
  is_ending = true;
  while (is_stuck) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(n_told, 1);
}

Launch launch_with(const std::map<std::string, std::string>& variables) {
  return find_launch([&](const char* name) {
    const auto it = variables.find(name);
    return it != variables.end() ? std::optional(it->second) : std::nullopt;
  });
}

TEST(Launch, IsWhatTheEnvironmentSays) {
  EXPECT_FALSE(launch_with({}).is_one_of_several());
  EXPECT_FALSE(launch_with({{"OMPI_COMM_WORLD_SIZE", "1"}}).is_one_of_several());
  const Launch mpirun =
      launch_with({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  EXPECT_TRUE(mpirun.is_one_of_several());
  EXPECT_EQ(mpirun.size, 4);
  EXPECT_EQ(mpirun.rank, 3);
  EXPECT_EQ(mpirun.local_rank, 1);
  EXPECT_TRUE(launch_with({{"PMIX_RANK", "2"}, {"SLURM_STEP_NUM_TASKS", "8"}}).is_one_of_several());
  EXPECT_TRUE(launch_with({{"PMIX_RANK", "2"}}).is_one_of_several());
  // A batch script of Slurm is one process, whatever its job has.
  EXPECT_FALSE(launch_with({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).is_one_of_several());
  EXPECT_FALSE(launch_with({{"SLURM_STEP_NUM_TASKS", "1"}}).is_one_of_several());
  EXPECT_TRUE(launch_with({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}).problem.empty());
}

TEST(Launch, ProcessesThatCannotFindEachOtherAreAnError) {
  const Launch srun = launch_with({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}});
  EXPECT_EQ(srun.rank, 1);
  EXPECT_THAT(srun.problem, HasSubstr("srun --mpi=pmix"));
  EXPECT_THROW(open_ranks(srun, 300), BadInput);
  EXPECT_THAT(launch_with({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}).problem, HasSubstr("Open MPI"));
}

}  // namespace
}  // namespace vitrine::test
