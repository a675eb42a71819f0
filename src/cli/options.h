// The options that commands share, and what they become: a model, a tokenizer, ids, a thread pool.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "generate/generator.h"

namespace vitrine::cli {

/// What the command line gave. Commands add the groups that they need.
struct Options {
  int threads = 0;  // 0: all processors
  std::optional<std::uint64_t> seed;
  bool json = false;
  std::string tokenizer;
  std::string compute = "auto";
  std::string kv = "f32";
  std::vector<std::string> allowed_config_keys;
  // MODEL and TEXT: one positional alone is TEXT, or MODEL where ids are given
  std::string first, second;
  int positionals = 0;
  std::vector<std::int32_t> ids;
  bool has_ids = false;
  bool no_special = false;
};

/// --threads, --seed, --json, --tokenizer, --compute, --kv, --allow-config-key.
void add_common(CLI::App& command, Options& options);
/// [MODEL] TEXT, --ids, --no-special.
void add_text(CLI::App& command, Options& options);

/// MODEL, TEXT as the rules above tell them apart.
std::string model_path(const Options& options);
bool uses_default_model(const Options& options);

/// Everything a command needs to run a model.
struct Session {
  Checkpoint checkpoint;
  std::unique_ptr<const Tokenizer> tokenizer;  ///< Null where none was needed and none is there.
  std::unique_ptr<ThreadPool> pool;
  std::vector<std::int32_t> ids;  ///< The text as ids; BOS alone for an empty text.

  GenerateContext context(const Options& options) const;
  std::vector<std::string> pieces(const std::vector<std::int32_t>& of) const;
};

Session open_session(const Options& options);

/// Reads all of stdin where TEXT is `-`.
std::string read_text(const std::string& text);

/// True once SIGINT or SIGTERM has come.
const std::atomic<bool>& interrupted();

}  // namespace vitrine::cli
