// The options that commands share, and the session that they open: model, tokenizer, ids, thread pool.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/processes.h"
#include "generate/generator.h"
#include "generate/open_model.h"
#include "hub/select.h"
#include "hub/temporary_folder.h"
#include "inspect/objective.h"
#include "report/model_facts.h"

namespace vitrine::cli {

/// The command line. Commands add the groups of options that they need.
struct Options {
  int threads = 0;  // 0: all processors
  std::optional<std::uint64_t> seed;
  bool json = false;
  std::string tokenizer;
  TokenizerOptions tokenizer_options;
  std::string compute = "auto";
  std::string kv = "f32";
  std::vector<std::string> allowed_config_keys, allowed_tensors;
  std::vector<std::string> adapters;      // [NAME=]PATH[=SCALE]
  std::vector<std::string> controls;      // [NAME=]PATH[=SCALE][:FIRST-LAST]
  std::vector<std::string> dictionaries;  // [NAME=]PATH[@SITE]
  std::string dictionary_use, skipped_tokens;
  // MODEL and TEXT: a single positional is TEXT, or MODEL if --ids is given
  std::string first, second;
  int positionals = 0;
  std::vector<std::int32_t> ids;  // empty: not given
  std::int64_t state_every = KvCache::kSnapshotInterval;
  bool no_special = false;
  bool continues = false;             // the text continues another one: it has no BOS and is not empty
  std::optional<std::string> suffix;  // of a text whose middle is filled in
  // what else a model reads
  std::optional<std::string> pair, target;
  std::vector<std::int32_t> target_ids, types;
  std::int64_t pad_to = 0;
  std::vector<std::int32_t> labels;
  std::optional<std::int32_t> next_sentence;

  bool offline = false;
  /// Where the arguments may have names of models on a hub, which are replaced by paths before the command begins.
  struct HubPlace {
    std::string* one;
    std::vector<std::string>* several;
    HubWanted wanted;
  };
  std::vector<HubPlace> hub_places;
  std::map<std::string, std::string> hub_names;                     // what was replaced, by the path
  std::vector<std::shared_ptr<const TemporaryFolder>> hub_folders;  // of what replaces them and is not in the cache
  std::function<bool()> takes_one_model{};  // whether a single positional is MODEL, as it is with --ids
  HubWanted first_wanted = HubWanted::model;

  Ranks* ranks = nullptr;  // of several processes that share the model
  bool splits_heads = false;

  int thread_count() const { return threads > 0 ? threads : default_thread_count(); }
  bool is_first() const { return ranks == nullptr || ranks->is_first(); }
  bool has_ids() const { return !ids.empty(); }
  bool first_is_model() const {
    return positionals == 2 || (positionals == 1 && (has_ids() || (takes_one_model && takes_one_model())));
  }
  /// A path of a model as the user has named it.
  std::string as_given(const std::string& path) const {
    const auto it = hub_names.find(path);
    return it == hub_names.end() ? path : it->second;
  }
  bool has_target_ids() const { return !target_ids.empty(); }
};

/// Adds --threads, --seed, --json, --tokenizer, --pattern, --source-lang, --compute, --kv, --allow-config-key,
/// --allow-tensor.
void add_common(Command& command, Options& options);
/// Adds --adapter.
void add_adapters(Command& command, Options& options);
/// Adds --adapter and --control, for commands that run a model.
void add_modifiers(Command& command, Options& options);
/// Adds --sae, --sae-use and --sae-skip, for commands that run a model.
void add_dictionaries(Command& command, Options& options);
/// --sae and --sae-skip of a command that only reads their values.
void add_read_dictionaries(Command& command, Options& options);
/// Gives all ranks rank 0's standard input and random seed, if they are used.
void share_inputs(Ranks& ranks, Options& options);

/// Runs a command that has --split on all ranks, which do the same. Only rank 0 prints and writes files.
template <class Own, class Run>
void run_split(const std::string& command, const Own& options, Run run) {
  require_one_process(command, options);
  if (options.split.empty()) return run(options);
  run_on_ranks(options.peer_timeout_s, [&](Ranks& ranks) {
    if (ranks.is_alone()) return run(options);
    Own shared = options;
    shared.ranks = &ranks;
    shared.splits_heads = options.split == "heads";
    share_inputs(ranks, shared);
    // Most errors are those of all ranks: rank 0 reports them, and the launcher ends the others meanwhile. It may take
    // seconds on a busy machine.
    const auto leave_it_to_first = [&] {
      if (!ranks.is_first() && !ranks.has_agreed_to_fail()) std::this_thread::sleep_for(std::chrono::seconds(5));
    };
    try {
      run(shared);
    } catch (const Interrupted&) {  // a signal may have reached this rank alone, for which the others wait
      leave_it_to_first();
      throw Error("--split", "interrupted");
    } catch (const std::exception&) {
      leave_it_to_first();
      throw;
    }
  });
}

/// A command and its options, with their defaults.
template <class Own>
struct NewCommand {
  Command& command;
  std::shared_ptr<Own> options;
};
template <class Own>
NewCommand<Own> new_command(Command& group, const std::string& name, const std::string& about) {
  return {*group.add_subcommand(name, about), std::make_shared<Own>()};
}
/// Adds the common options and the footer. The command calls `run` with its options, which it keeps. Unless the options
/// have
/// --split or a peer timeout, the command is one process.
template <class Own, class Run>
void finish_command(Command& command, const std::shared_ptr<Own>& options, Run run, const std::string& footer) {
  add_common(command, *options);
  command.footer(footer);
  command.callback([&command, options, run] {
    fetch_named(*options);
    if constexpr (requires { options->split; }) return run_split(command.get_name(), *options, run);
    if constexpr (!requires { options->peer_timeout_s; }) require_one_process(command.get_name());
    run(*options);
  });
}
/// Adds [MODEL], a second positional and --no-special. A single positional is the second one.
void add_positionals(Command& command, Options& options, const std::string& about_model, const char* second,
                     const std::string& about_second);
/// Adds [MODEL] TEXT and --no-special.
void add_text(Command& command, Options& options, const std::string& about_model);
/// Adds [MODEL] TEXT, --no-special, --ids, --adapter and --control, for commands that run a model.
void add_model_and_text(Command& command, Options& options);

/// The tokenizer at `path` for the target texts of pairs, which are in `language`; "": the files' own. Null if it is
/// the one of the sources.
std::unique_ptr<const Tokenizer> tokenizer_of_targets(const Options& o, const std::string& language,
                                                      const std::string& path);

/// Adds --state-every.
void add_state_every(Command& command, Options& options);
/// Adds --pair.
void add_pair(Command& command, Options& options);
/// Adds --types.
void add_types(Command& command, Options& options);
/// Adds --pair, --target, --target-ids, --types and --pad-to, for commands that run a forward over a given text.
void add_second_input(Command& command, Options& options);

/// Adds --labels and --next-sentence, for commands that compute gradients.
void add_labels(Command& command, Options& options);

/// Adds an option whose value is a text, also an empty one (CLI11's own take an empty text as none).
void add_optional(Command& command, const std::string& name, std::optional<std::string>& place,
                  const std::string& about);
/// Adds an option whose value is ids as in 1,2,3.
void add_ids(Command& command, const std::string& name, std::vector<std::int32_t>& ids, const std::string& about);
/// Adds an option with one of several values.
Option* add_choice(Command& command, const std::string& name, std::string& place,
                   const std::vector<std::string>& choices, const std::string& about);
/// Adds an option whose value is the path of a file.
Option* add_file(Command& command, const std::string& name, std::string& path, const std::string& about);
/// Adds [MODEL].
void add_model(Command& command, Options& options, std::string& path);
/// Lets the value of an option or positional be a name of a model on a hub.
void allow_hub(Options& options, std::string& place, HubWanted wanted = HubWanted::model);
void allow_hub(Options& options, std::vector<std::string>& places, HubWanted wanted = HubWanted::model);
/// Fetches what the arguments name with hf: (cli/hub.h).
void fetch_named(Options& options, const std::string& owner = "");
/// Adds --now.
void add_now(Command& command, std::string& now);
/// Adds an option that may be given several times, with its values unchanged (CLI11's own lists split and drop some).
void add_list(Command& command, const std::string& name, std::vector<std::string>& list, const std::string& about);

/// Adds a numeric option. CLI11's own options accept empty text, octal, and negative values for unsigned types.
template <class T, class Place>
void add_number(Command& command, const std::string& name, Place& place, const std::string& about,
                T lowest = std::numeric_limits<T>::lowest(), T highest = std::numeric_limits<T>::max()) {
  const auto read = [name, &place, lowest, highest](const std::string& text) {
    const std::optional<T> value = number_in<T>(text);
    if (!value || !(lowest <= *value && *value <= highest)) {
      const std::string expected =
          std::is_integral_v<T> ? fmt::format("a whole number from {} to {}", lowest, highest) : "a number";
      throw UsageError(name, fmt::format("expected {}, got \"{}\"", expected, text));
    }
    place = *value;
  };
  command.add_option_function(name, read, about)->type_name("N");
}

/// Parses ids as in 1,2,3. Anything else is a usage error of `option`.
std::vector<std::int32_t> parse_ids(const std::string& text, const std::string& option);

/// A number of bytes: 500000, 900K, 16M, 1G. Anything else is an error of `option`.
std::int64_t bytes_in(const std::string& text, const std::string& option);

/// The types that --kv names, as in int8 or int8:int4, which must be right.
KvTypes kv_types(const std::string& names);

/// The path of the model that ships with the program. Throws BadInput if it is not installed.
std::string default_model();

/// Everything a command needs to run a model.
struct Session : OpenedModel {
  std::unique_ptr<ThreadPool> pool;
  std::vector<std::int32_t> ids;              ///< The text as ids; only BOS for an empty text. An encoder reads it.
  std::vector<std::int32_t> target;           ///< What the decoder of a model with an encoder reads.
  std::vector<std::int32_t> types;            ///< Of `ids`; empty: all 0.
  std::vector<std::int32_t> targets;          ///< For gradients: what each row predicts, kNoLabel for nothing.
  std::optional<std::int32_t> next_sentence;  ///< For gradients: the label of the next sentence.
  std::int64_t n_padding = 0;                 ///< The last of `ids`, which no token attends to.
  std::shared_ptr<ModelSplit> split{};        ///< Not null: checkpoint.model is this process's part of the model.
  std::shared_ptr<const Model> whole_model{};

  GenerateContext context(const Options& options) const;
  bool has_encoder() const { return checkpoint.model->config().encoder.has_value(); }
  /// The tokens whose rows have logits: those of the target, or of the text.
  const std::vector<std::int32_t>& rows() const { return has_encoder() ? target : ids; }
  Tokens tokens() const;
  /// A pass over all tokens in one piece, without a cache.
  Pass make_pass(const GenerateContext& context, Arena& arena) const;
  std::optional<std::int32_t> bos() const { return defaults().bos; }
  /// The piece as in the vocabulary; "" without a tokenizer, and for ids outside it.
  std::string piece(std::int32_t id) const;
  /// A token for display: its text in quotes; the piece if that is not valid text; #ID if there is no piece.
  std::string label(std::int32_t id) const;
};

/// Opens MODEL, and encodes TEXT, with --pair if it is given, or takes --ids.
Session open_session(const Options& options);
/// Sets the types of the session's tokens: --types, else those of --pair. Throws BadInput for types that do not fit.
void set_types(const Options& options, Session& session);
/// Opens a session with --target and --types, too. Throws BadInput for a target that the model does not read, or none
/// if it does.
Session open_full_session(const Options& options);

/// Like open_full_session(), for the gradient of the mean loss over --labels, or of the next tokens. Throws Unsupported
/// unless --kv is f32, BadInput for labels that do not fit and fewer than two ids; `where` names the caller.
Session open_learning_session(const Options& options, const char* where);
/// Runs forward and backward over the session's tokens. Returns the mean loss in nats, plus that of the next sentence;
/// adds its gradients to `params`.
double backward_from_targets(const Session& session, Pass& pass, Gradients& params);
/// Opens the adapter PATH or PATH=SCALE for the session's model, in addition to those it has,
void use_adapter(Session& session, const std::string& text);
/// and the control vector PATH[=SCALE][:FIRST-LAST].
void use_control(Session& session, const std::string& text);

/// Gives this process its part of the session's model.
void split_model(const Options& options, Session& session);

/// Opens a model without a text. An empty `path` means the default model.
Session open_model(const Options& options, const std::string& path, bool needs_tokenizer);

/// The same, with the model's tokenizer if it has one, which must be the case if `needs_tokenizer`.
Session open_for_texts(const Options& options, const std::string& path, bool needs_tokenizer);

/// What --compute names.
Compute compute_of(const Options& options);
/// Returns `text`, or all of stdin if `text` is `-`.
std::string read_text(const std::string& text);

/// SIGINT, SIGTERM and SIGHUP end the program at once, with a message. While a CleanStop exists they only make
/// interrupted() true; the running function then throws Interrupted, and files that are being written are removed.
class CleanStop {
 public:
  CleanStop();
  CleanStop(const CleanStop&) = delete;
  CleanStop& operator=(const CleanStop&) = delete;
  ~CleanStop();
  /// Whether it is the only one, so that a signal during its scope must be acted upon at its end.
  bool is_outermost() const;
};
/// A CleanStop until the end of the program. Commands that write files call it before they create the first one.
void stop_cleanly();
/// Whether a clean stop has been requested.
const std::atomic<bool>& interrupted();
/// From now on, SIGUSR1 makes has_enough() true: the command ends early, as if its work were done.
void end_early_at_usr1();
const std::atomic<bool>& has_enough();
/// After Ctrl-C: lets the program continue. Returns false if another signal has asked it to stop.
bool forget_interrupt();

}  // namespace vitrine::cli
