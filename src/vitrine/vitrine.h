// The library on one page: open a checkpoint, predict the next token, continue a text, look inside.
//
//   const auto model = vitrine::LanguageModel::open("path/of/a/checkpoint");
//   model.generate("Once upon a time", {.on_text = [](const std::string& text) { std::cout << text << std::flush; }});
//
// This header and what it includes are the library's interface. Letters in shapes: T tokens of a text, V vocab_size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "base/exceptions.h"
#include "generate/result.h"
#include "generate/sampler.h"
#include "tensor/dtype.h"
#include "tokenizer/tokenizer.h"

namespace vitrine {

/// How a checkpoint is opened.
struct OpenOptions {
  std::string tokenizer{};               ///< A tokenizer's file or folder; "": the one in the checkpoint's folder.
  TokenizerOptions tokenizer_options{};  ///< For tokenizer files that do not say everything themselves.
  int threads = 0;                       ///< Threads of one call; 0: all processors that the process may use.
  DType kv_dtype = DType::f32;           ///< Keys and values are rounded to it: f32, bf16, f16 or i8.
  std::vector<std::string> allowed_config_keys{};  ///< Unknown keys of config.json to ignore.
};

/// A text, or its token ids. A text gets the special tokens that its tokenizer adds (BOS, say), and special tokens
/// written in it are recognized; an empty one is BOS alone. Ids are taken as they are.
using Prompt = std::variant<std::string, std::vector<std::int32_t>>;

/// Sees one value of the forward: the site's name (`blocks.3.attn.hook_q`), and its row-major values with their shape.
/// What it writes into `values` takes the value's place. Called on the calling thread; what it throws ends the call.
using SiteFunction =
    std::function<void(const std::string& name, std::span<float> values, std::span<const std::int64_t> shape)>;

/// Which sites a function sees. A forward has the tokens of one chunk: T in a shape is at most 256 in a prompt, and 1
/// in each step after it.
struct Watch {
  std::vector<std::string> sites{};  ///< Globs over names, as in TraceOptions; none: all but the costly ones.
  SiteFunction function{};
};

/// How a text is continued.
struct GenerateOptions {
  std::int64_t max_tokens = 128;             ///< Most tokens to add; ≥ 0.
  std::optional<SamplingConfig> sampling{};  ///< None: LanguageModel::default_sampling().
  std::uint64_t seed = 0;                    ///< The same seed gives the same tokens, on any machine and any threads.
  std::vector<std::string> stop{};           ///< The text ends before the first of these.
  int n_logprobs = 0;                        ///< Log-probabilities to report for each token; 0: none.
  /// Receives the text as it comes, whole characters at a time, on the calling thread. What it throws ends the call and
  /// goes to the caller.
  std::function<void(const std::string& text)> on_text{};
  Watch watch{};
};

struct SessionOptions {
  std::int64_t capacity = 0;  ///< Most tokens of the sequence; 0: the model's context.
  Watch watch{};
};

/// Which values of a forward to return, and what to write into it.
struct TraceOptions {
  /// Globs over names of sites, `blocks.*.attn.hook_pattern`; none: all but the costly ones. The names are
  /// TransformerLens's; `vitrine trace` prints them.
  std::vector<std::string> sites{};
  /// Writes, `blocks.2.attn.hook_z[:,1]=0`, also `*=` and `+=`. The index has one entry for each dimension from the
  /// left: a number (from the end if negative), a range `a:b`, or `:`; missing entries are `:`.
  std::vector<std::string> writes{};
};

/// An intermediate value of a forward, after any write into it.
struct SiteValue {
  std::string name;                 ///< `blocks.3.attn.hook_q`
  std::vector<std::int64_t> shape;  ///< As in `[T, n_heads, head_dim]`.
  std::vector<float> values;        ///< Row-major.
};

class Session;

/// A model with its tokenizer, ready to run. A handle: copies are cheap and share one model, which is mapped, not read.
///
/// Threads: every function may be called by any number of threads at the same time, on one object or on copies of it,
/// also from a callback. Of the calls that run at one time on a model, four use OpenOptions::threads threads each, and
/// further ones only the calling thread. The model keeps the threads of these four, and no others. Results have the
/// same bits with any number of threads and during any other calls.
///
/// Calls that take a `cancel` throw Interrupted within milliseconds after a stop was requested. Prompts need not be
/// trusted: one that does not fit throws BadInput. Without memory, calls throw OutOfCapacity or std::bad_alloc.
class LanguageModel {
 public:
  /// Opens a Hugging Face folder, a GGUF or a llama2.c file, recognized by its content, and its tokenizer. Throws
  /// BadInput for a path without a file, BadCheckpoint for a broken file, Unsupported for what vitrine does not
  /// compute. A checkpoint without a tokenizer opens; it takes ids.
  static LanguageModel open(const std::string& path, const OpenOptions& options = {});

  const std::string& description() const;  ///< Family or format, for people.
  std::int64_t vocab_size() const;         ///< V; ids are in [0, V).
  std::int64_t max_seq_len() const;        ///< The context: most tokens of prompt and continuation together.
  std::int64_t d_model() const;
  std::int64_t n_layers() const;

  /// The checkpoint's values (generation_config.json), and SamplingConfig's defaults for the others.
  SamplingConfig default_sampling() const;

  /// Throws BadInput where there is none, saying why.
  const Tokenizer& tokenizer() const;

  /// The ids that a call with this prompt feeds, `[T]`. Throws BadInput for a text without a tokenizer, and for an
  /// empty text where there is no BOS.
  std::vector<std::int32_t> ids(const Prompt& prompt) const;

  /// The `n` most likely tokens after the prompt, the most likely first, lower ids first among equals.
  /// Log-probabilities are natural logarithms of the softmax over V, in double.
  std::vector<TokenLogprob> next(const Prompt& prompt, int n = 10, std::stop_token cancel = {}) const;

  /// The same after every prefix of the prompt: T lists, of which the last is that of next().
  std::vector<std::vector<TokenLogprob>> predict(const Prompt& prompt, int n = 10, std::stop_token cancel = {}) const;

  /// Continues a text up to a stop id, a stop text, max_tokens or the end of the context. Throws BadInput also for
  /// options outside their ranges.
  GenerateResult generate(const Prompt& prompt, const GenerateOptions& options = {}, std::stop_token cancel = {}) const;

  /// The logits of every position, `[T, V]` in row-major order: row t scores the token after ids[0 … t].
  std::vector<float> logits(const Prompt& prompt, std::stop_token cancel = {}) const;

  /// The same, row by row in ascending order, in memory that does not grow with T × V. `row` is valid during the call.
  using ReceiveLogits = std::function<void(std::int64_t position, std::span<const float> row)>;
  void logits(const Prompt& prompt, const ReceiveLogits& receive, std::stop_token cancel = {}) const;

  /// Runs the prompt once and returns the chosen values in the order of the forward. Reading changes no bit; a write
  /// changes what follows it. Throws BadInput for a glob or a write that matches no site of this model.
  std::vector<SiteValue> trace(const Prompt& prompt, const TraceOptions& options = {},
                               std::stop_token cancel = {}) const;

  /// A sequence that the caller drives. Throws BadInput for a capacity beyond the context.
  Session session(const SessionOptions& options = {}) const;

 private:
  friend class Session;
  struct State;
  class Call;
  explicit LanguageModel(std::shared_ptr<const State> state);

  std::shared_ptr<const State> state_;
};

/// One sequence with its KV cache, fed token by token, or in parts of any length: all give the same bits.
///
///   auto session = model.session();
///   session.feed(model.ids("Once upon a time"));
///   for (int i = 0; i < 40; ++i) session.feed(argmax(session.logits()));
///
/// Used by one thread at a time; keeps the model open.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Appends tokens and computes the logits after the last of them. Throws BadInput, without effect, for ids outside
  /// the vocabulary and for more of them than the capacity leaves. After any other error the session is closed: its
  /// calls throw BadInput.
  void feed(std::span<const std::int32_t> ids, std::stop_token cancel = {});
  void feed(std::int32_t id, std::stop_token cancel = {});

  std::span<const float> logits() const;         ///< `[V]`, after the last token; empty before the first.
  const std::vector<std::int32_t>& ids() const;  ///< All tokens so far, as sample() takes them.

 private:
  friend class LanguageModel;
  struct State;
  explicit Session(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// Writes values to a safetensors file, one float32 tensor each; the file appears whole or not at all. Throws BadInput
/// where the file cannot be written or a shape does not fit its values, OutOfCapacity where the disk is full.
void save_sites(const std::string& path, std::span<const SiteValue> sites);

}  // namespace vitrine
