// Whether a launcher (mpirun, srun) has started this process as one of several, and how these processes find each
// other: libvitrine-mpi.so, which is opened only then.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ranks/ranks.h"

namespace vitrine {

/// What the launcher says in the environment.
struct Launch {
  bool has_launcher = false;
  int size = 1;  ///< Processes of the run; 0: the launcher does not say.
  int rank = 0;
  int local_rank = 0;  ///< Among the processes on the same machine.
  std::string launcher;
  std::string problem;  ///< Why the processes cannot find each other; "": they can.

  bool is_one_of_several() const { return has_launcher && size != 1; }
};

using Environment = std::function<std::optional<std::string>(const char* name)>;
/// The environment of this process.
std::optional<std::string> environment(const char* name);

Launch find_launch(const Environment& variable = environment);

/// Meets the other processes of a launch of several; for any other launch, the only rank. Throws BadInput if they
/// cannot find each other or the library cannot be opened, PeerLost.
std::unique_ptr<Ranks> open_ranks(const Launch& launch, double peer_timeout_s);

}  // namespace vitrine
