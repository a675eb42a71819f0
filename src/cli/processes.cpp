#include "cli/processes.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>

#include "base/error.h"
#include "cli/options.h"
#include "cli/output.h"
#include "ranks/launch.h"

namespace vitrine::cli {
namespace {

/// Only one process of each machine reports that there is no library.
std::unique_ptr<Ranks> meet(double peer_timeout_s) {
  const Launch launch = find_launch();
  try {
    return open_ranks(launch, peer_timeout_s);
  } catch (const std::exception& e) {
    if (launch.rank != launch.local_rank && launch.local_rank == 0) note(std::string("error: ") + e.what());
    throw;
  }
}

}  // namespace

void add_peer_timeout(Command& command, double& seconds) {
  add_number<double>(command, "--peer-timeout", seconds,
                     "Seconds without a sign of life from another rank after which the run ends (default: 300)", 3);
}

void add_split(Command& command, SplitOptions& o) {
  add_choice(command, "--split", o.split, {"layers", "heads"},
             "What each of several processes (mpirun) runs: some of the layers, or some of the heads of all layers "
             "(docs/cluster.md)");
  add_peer_timeout(command, o.peer_timeout_s);
}

bool is_first_process() { return find_launch().rank == 0; }

namespace {

void require_one_process(const std::string& command, const char* way_out) {
  const Launch launch = find_launch();
  if (!launch.is_one_of_several()) return;
  throw Unsupported(command, "expected one process, but {} started {}; {}", launch.launcher,
                    launch.size > 0 ? fmt::format("{}", launch.size) : "several", way_out);
}

}  // namespace

void require_one_process(const std::string& command) {
  require_one_process(command,
                      "these commands run on several: train, bench --network, and with --split generate, predict, "
                      "logits, eval, trace");
}

void require_one_process(const std::string& command, const SplitOptions& o) {
  if (o.split.empty())
    require_one_process(command, "give --split layers or --split heads to divide the model among them");
}

void run_on_ranks(double peer_timeout_s, const std::function<void(Ranks&)>& work) {
  std::atomic<bool> is_told = false;  // the ranks' threads use it, so it outlives them
  const std::unique_ptr<Ranks> ranks = meet(peer_timeout_s);
  if (ranks->is_alone()) return work(*ranks);
  const auto tell = [&is_told](const std::string& text) {
    if (!is_told.exchange(true)) note("error: " + text);
  };
  ranks->tell_of_the_dead(interrupted(), tell);
  ranks->end_if_stuck(interrupted(), [tell](const std::string& text) {
    if (!text.empty()) {
      write_stderr("\n");  // MPI may be writing a line
      tell(text);
    }
    std::_Exit(1);
  });
  const auto end = [&] {
    ranks->finish();
    throw Reported();
  };
  try {
    work(*ranks);
    ranks->finish();
  } catch (const Interrupted&) {  // all ranks stop at the same step
    ranks->finish();
    throw;
  } catch (const ReportedElsewhere&) {
    end();
  } catch (const std::exception& e) {
    const bool is_agreed = ranks->has_agreed_to_fail();
    const bool names_a_rank = dynamic_cast<const PeerLost*>(&e) != nullptr;
    tell(is_agreed || ranks->is_first() || names_a_rank ? e.what()
                                                        : fmt::format("[{}] {}", ranks->name(ranks->rank()), e.what()));
    if (is_agreed) end();
    ranks->abort(1);
    throw Reported();
  }
}

}  // namespace vitrine::cli
