// The options that commands share, and what they become: a model, a tokenizer, ids, a thread pool.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
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
  TokenizerOptions tokenizer_options;
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

/// --threads, --seed, --json, --tokenizer, --pattern, --compute, --kv, --allow-config-key.
void add_common(CLI::App& command, Options& options);
/// [MODEL] and a second positional, which stands alone where the default model is meant; --no-special.
void add_positionals(CLI::App& command, Options& options, const std::string& about_model, const char* second,
                     const std::string& about_second);
/// [MODEL] TEXT and --no-special.
void add_text(CLI::App& command, Options& options, const std::string& about_model);
/// The same and --ids, for commands that run a model.
void add_model_and_text(CLI::App& command, Options& options);

/// An option that may be given several times. Its values are taken as they are: CLI11's own lists split and drop some.
void add_list(CLI::App& command, const std::string& name, std::vector<std::string>& list, const std::string& about);

/// A decimal number. CLI11's own accept an empty text, octal, and unsigned numbers that are negative.
template <class T, class Place>
void add_number(CLI::App& command, const std::string& name, Place& place, const std::string& about,
                T lowest = std::numeric_limits<T>::lowest(), T highest = std::numeric_limits<T>::max()) {
  const auto read = [name, &place, lowest, highest](const std::string& text) {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || !(lowest <= value && value <= highest)) {
      const std::string expected =
          std::is_integral_v<T> ? fmt::format("a whole number from {} to {}", lowest, highest) : "a number";
      throw CLI::ValidationError(name, fmt::format("expected {}, got \"{}\"", expected, text));
    }
    place = value;
  };
  command.add_option_function<std::string>(name, read, about)->type_name("N");
}

/// Ids as in 1,2,3; anything else is wrong usage of `option`.
std::vector<std::int32_t> parse_ids(const std::string& text, const std::string& option);

/// f32, bf16, f16 or int8.
DType kv_dtype(const std::string& name);

/// The model that ships with the program.
std::string default_model();

/// Everything a command needs to run a model.
struct Session {
  Checkpoint checkpoint;
  std::unique_ptr<const Tokenizer> tokenizer;  ///< Null where none was needed and none is there.
  std::unique_ptr<ThreadPool> pool;
  std::vector<std::int32_t> ids;  ///< The text as ids; BOS alone for an empty text.

  GenerateContext context(const Options& options) const;
  /// The id that begins a text: the tokenizer's, else the checkpoint's.
  std::optional<std::int32_t> bos() const;
  /// The piece as the vocabulary spells it; "" without a tokenizer, and for ids beyond it.
  std::string piece(std::int32_t id) const;
  /// A token for people: its text in quotes, the piece of what is no text, the id where there is no piece.
  std::string label(std::int32_t id) const;
};

/// MODEL and TEXT, or --ids, as the options have them.
Session open_session(const Options& options);
/// A model without a text. `path` may be empty: the default model.
Session open_model(const Options& options, const std::string& path, bool needs_tokenizer);

/// Reads all of stdin where TEXT is `-`.
std::string read_text(const std::string& text);

/// True once a signal has come that asks to stop.
const std::atomic<bool>& interrupted();

/// While one stands, such a signal ends the program at once, with the same message and status: for work that cannot be
/// asked to stop and has nothing to clean up, as encoding a long text. Throws Interrupted where it came before.
class StopAtOnce {
 public:
  StopAtOnce();
  StopAtOnce(const StopAtOnce&) = delete;
  StopAtOnce& operator=(const StopAtOnce&) = delete;
  ~StopAtOnce();
};

}  // namespace vitrine::cli
