#include "ranks/launch.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "ranks/mpi/library.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// The first of some variables that has a number.
std::optional<int> number_of(const Environment& variable, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const std::optional<std::string> text = variable(name);
    if (!text) continue;
    if (const auto number = number_in<int>(*text)) return number;
  }
  return {};
}

/// In the build, the library is next to the program; installed, in ../lib/vitrine; else where the system has it.
void* open_library(std::string& problem) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<std::string> places = {kMpiLibrary};
  for (const fs::path& folder : {program / ".." / "lib" / "vitrine", program}) {
    if (fs::exists(folder / kMpiLibrary, error)) places.insert(places.begin(), (folder / kMpiLibrary).string());
  }
  for (const std::string& place : places) {
    // Open MPI opens libraries of its own, which look for its symbols among the global ones.
    if (void* const library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
    if (problem.empty()) problem = ::dlerror();
  }
  return nullptr;
}

}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

Launch find_launch(const Environment& variable) {
  Launch launch;
  if (const auto size = number_of(variable, {"OMPI_COMM_WORLD_SIZE"})) {
    launch = {true,
              *size,
              number_of(variable, {"OMPI_COMM_WORLD_RANK"}).value_or(0),
              number_of(variable, {"OMPI_COMM_WORLD_LOCAL_RANK"}).value_or(0),
              "mpirun",
              ""};
  } else if (const auto rank = number_of(variable, {"PMIX_RANK"})) {
    launch = {true,   number_of(variable, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}).value_or(0),
              *rank,  number_of(variable, {"SLURM_LOCALID"}).value_or(*rank),
              "srun", ""};
  } else if (const auto tasks = number_of(variable, {"SLURM_STEP_NUM_TASKS"}); tasks && *tasks > 1) {
    launch = {true,
              *tasks,
              number_of(variable, {"SLURM_PROCID"}).value_or(0),
              number_of(variable, {"SLURM_LOCALID"}).value_or(0),
              "srun",
              fmt::format("expected srun --mpi=pmix: without it, the {} processes cannot find each other", *tasks)};
  } else if (const auto pmi = number_of(variable, {"PMI_SIZE"}); pmi && *pmi > 1) {
    const int rank_of = number_of(variable, {"PMI_RANK"}).value_or(0);
    launch = {true,       *pmi,
              rank_of,    rank_of,
              "launcher", fmt::format("expected Open MPI's mpirun or srun --mpi=pmix to start the {} processes", *pmi)};
  }
  return launch;
}

std::unique_ptr<Ranks> open_ranks(const Launch& launch, double peer_timeout_s) {
  if (!launch.is_one_of_several()) return std::make_unique<Ranks>();
  if (!launch.problem.empty()) throw BadInput(launch.launcher, "{}", launch.problem);
  std::string problem;
  void* const library = open_library(problem);
  if (library == nullptr) {
    throw BadInput(launch.launcher, "it started {} processes, which need {} (package vitrine-mpi): {}", launch.size,
                   kMpiLibrary, problem);
  }
  const auto open = reinterpret_cast<OpenTransport>(::dlsym(library, kOpenTransport));
  if (open == nullptr) throw BadInput(kMpiLibrary, "it is of another version of vitrine");
  std::unique_ptr<Transport> transport(open());
  if (transport->size() == 1) {
    transport->finish();
    return std::make_unique<Ranks>();
  }
  return std::make_unique<Ranks>(std::move(transport), peer_timeout_s);
}

}  // namespace vitrine
