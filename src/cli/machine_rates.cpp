#include "cli/machine_rates.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/exceptions.h"
#include "base/file_writer.h"
#include "base/mapped_file.h"
#include "base/version.h"
#include "kernels/kernels.h"

namespace vitrine::cli {
namespace {

namespace fs = std::filesystem;

/// "" without a home.
std::string path_of_rates() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return fs::path(value != nullptr ? value : "");
  };
  const fs::path cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (cache.is_absolute()) return cache / "vitrine" / "rates.json";
  return home.is_absolute() ? home / ".cache" / "vitrine" / "rates.json" : fs::path();
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos)
      return line.substr(std::min(colon + 2, line.size()));
  }
  return "unknown";
}

/// The object at `path`; an empty one if there is none.
Json read_object(const std::string& path) {
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return Json::object();
  try {
    Json read = parse_json(MappedFile::open(path)->text(), path);
    if (read.is_object()) return read;
  } catch (const Error&) {  // it is measured again
  }
  return Json::object();
}

constexpr double kBusy = 1;  // programs that run, on average over the last minute

double load() {
  double last_minute = 0;
  return ::getloadavg(&last_minute, 1) == 1 ? last_minute : 0;
}

/// The object under a key; an empty one if there is none.
Json object_in(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : Json::object();
}

double rate_in(const Json& object, std::string_view name) {
  const auto found = object.find(name);
  const double rate = found != object.end() && found->is_number() ? found->get<double>() : 0;
  return rate > 0 && rate < 1e18 ? rate : 0;
}

}  // namespace

MachineRates::MachineRates(ThreadPool& pool)
    : pool_(pool),
      path_(path_of_rates()),
      machine_(processor_name() + ", " + std::to_string(pool.size()) + " threads, " +
               std::string(name_of(default_kernels().isa)) + ", " + build_name()),
      own_(object_in(read_object(path_), machine_)) {
  forget_busy();
}

/// What was measured while the machine was busy is measured again when it is not.
void MachineRates::forget_busy() {
  const double then = rate_in(own_, "load");
  if (then > kBusy && load() < then / 2) own_ = Json::object();
}

void MachineRates::keep() {
  if (path_.empty()) return;
  own_["load"] = load();
  try {
    Json all = read_object(path_);  // another process may have added to it
    all[machine_] = own_;
    std::error_code error;
    fs::create_directories(fs::path(path_).parent_path(), error);
    FileWriter file(path_);
    const std::string text = all.dump(2) + "\n";
    file.write(std::as_bytes(std::span(text)));
    file.commit();
  } catch (const Error&) {  // the next command measures again
  }
}

double MachineRates::read_bytes_per_s() {
  if (const double kept = rate_in(own_, "read_bytes_per_s"); kept > 0) return kept;
  const double measured = measure_reading(pool_);
  own_["read_bytes_per_s"] = measured;
  keep();
  return measured;
}

ProductRates MachineRates::products(DType type, Compute compute) {
  const std::string name = std::string(name_of(type)) + (compute == Compute::f32 ? ", f32" : "") +
                           (type == DType::mxfp4_pairs ? ", scales apart" : "");
  const Json kept = object_in(own_, name);
  const ProductRates rates = {rate_in(kept, "read_bytes_per_s"), rate_in(kept, "operations_per_s")};
  if (rates.read_bytes_per_s > 0 && rates.operations_per_s > 0) return rates;
  const ProductRates measured = measure_products(pool_, type, compute);
  own_[name] = {{"read_bytes_per_s", measured.read_bytes_per_s}, {"operations_per_s", measured.operations_per_s}};
  keep();
  return measured;
}

}  // namespace vitrine::cli
