// The library on one page: open a checkpoint, ask what comes next, continue a text, look inside.
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
  TokenizerOptions tokenizer_options{};  ///< What that file may need to be told besides.
  int threads = 0;                       ///< Threads of one call; 0: all processors that the process may use.
  DType kv_dtype = DType::f32;           ///< What keys and values are rounded to: f32, bf16, f16 or i8.
  std::vector<std::string> allowed_config_keys{};  ///< Unknown keys of config.json to pass over.
};

/// A text, or its token ids. A text gets the special tokens that its tokenizer adds (BOS, say), and special tokens
/// written in it are recognized; an empty one is BOS alone. Ids are taken as they are.
using Prompt = std::variant<std::string, std::vector<std::int32_t>>;

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
};

/// What to look at in a forward, and what to write into it.
struct TraceOptions {
  /// Globs over names of sites, `blocks.*.attn.hook_pattern`; none: all but the costly ones. The names are
  /// TransformerLens's; `vitrine trace` prints them.
  std::vector<std::string> sites{};
  /// Writes, `blocks.2.attn.hook_z[:,1]=0`, also `*=` and `+=`. The index has one entry for each dimension from the
  /// left: a number (from the end if negative), a range `a:b`, or `:`; what is left out is `:`.
  std::vector<std::string> writes{};
};

/// An intermediate value of a forward, after any write into it.
struct SiteValue {
  std::string name;                 ///< `blocks.3.attn.hook_q`
  std::vector<std::int64_t> shape;  ///< As in `[T, n_heads, head_dim]`.
  std::vector<float> values;        ///< Row-major.
};

/// A model with its tokenizer, ready to run. A handle: copies are cheap and share one model, which is mapped, not read.
///
/// Threads: every function may be called by any number of threads at the same time, on one object or on copies of it,
/// also from a callback. Of the calls that run at one time on a model, four use OpenOptions::threads threads each, and
/// further ones only the thread that calls. The model keeps the threads that these four need, and no others. Results
/// have the same bits whatever the number of threads and whatever else runs.
///
/// Calls that take a `cancel` throw Interrupted soon (milliseconds) after a stop was requested; a prompt may come from
/// outside: whatever does not fit throws BadInput. Memory that is refused is OutOfCapacity or std::bad_alloc.
class LanguageModel {
 public:
  /// Opens a Hugging Face folder, a GGUF or a llama2.c file, told apart by content, and its tokenizer. Throws BadInput
  /// for a path that leads nowhere, BadCheckpoint for a broken file, Unsupported for what vitrine does not compute. A
  /// checkpoint without a tokenizer opens: it takes ids.
  static LanguageModel open(const std::string& path, const OpenOptions& options = {});

  const std::string& description() const;  ///< Family or format, for people.
  std::int64_t vocab_size() const;         ///< V; ids lie in [0, V).
  std::int64_t max_seq_len() const;        ///< The context: most tokens of prompt and continuation together.
  std::int64_t d_model() const;
  std::int64_t n_layers() const;

  /// What the checkpoint asks for (generation_config.json), and SamplingConfig's defaults where it is silent.
  SamplingConfig default_sampling() const;

  /// Throws BadInput where there is none, saying why.
  const Tokenizer& tokenizer() const;

  /// The ids that a call with this prompt feeds in, `[T]`. Throws BadInput for a text without a tokenizer, and for an
  /// empty text where there is no BOS.
  std::vector<std::int32_t> ids(const Prompt& prompt) const;

  /// The `n` most likely tokens behind the prompt, the most likely first, lower ids first among equals.
  /// Log-probabilities are natural logarithms of the softmax over V, in double.
  std::vector<TokenLogprob> next(const Prompt& prompt, int n = 10, std::stop_token cancel = {}) const;

  /// The same after every prefix of the prompt: T lists, the last one is what next() gives.
  std::vector<std::vector<TokenLogprob>> predict(const Prompt& prompt, int n = 10, std::stop_token cancel = {}) const;

  /// Continues a text up to a stop id, a stop text, max_tokens or the end of the context. Throws BadInput also for
  /// options outside their ranges.
  GenerateResult generate(const Prompt& prompt, const GenerateOptions& options = {}, std::stop_token cancel = {}) const;

  /// The logits of every position, `[T, V]` in row-major order: row t scores the token behind ids[0 … t].
  std::vector<float> logits(const Prompt& prompt, std::stop_token cancel = {}) const;

  /// The same, row by row in ascending order, in memory that does not grow with T × V. `row` is valid during the call.
  using ReceiveLogits = std::function<void(std::int64_t position, std::span<const float> row)>;
  void logits(const Prompt& prompt, const ReceiveLogits& receive, std::stop_token cancel = {}) const;

  /// Runs the prompt once and returns the chosen values in the order in which the forward met them. Looking changes no
  /// bit; writing changes what comes behind. Throws BadInput for a glob or a write that meets no site of this model.
  std::vector<SiteValue> trace(const Prompt& prompt, const TraceOptions& options = {},
                               std::stop_token cancel = {}) const;

 private:
  struct State;
  explicit LanguageModel(std::shared_ptr<const State> state);

  std::shared_ptr<const State> state_;
};

/// Writes values to a safetensors file, one float32 tensor each; the file appears whole or not at all. Throws BadInput
/// where the place cannot be written or a shape does not fit its values, OutOfCapacity where the disk is full.
void save_sites(const std::string& path, std::span<const SiteValue> sites);

}  // namespace vitrine
