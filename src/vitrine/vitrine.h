// The public interface of the library: open a checkpoint, predict the next token, continue a text, answer a
// conversation, read and change intermediate values.
//
//   const auto model = vitrine::LanguageModel::open("path/to/checkpoint");
//   model.generate("Once upon a time", {.on_text = [](const std::string& text) { std::cout << text << std::flush; }});
//
// This header and the headers that it includes are the library's interface. In shapes, T is the number of tokens of a
// text, and V is vocab_size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/exceptions.h"
#include "generate/open_options.h"
#include "generate/options.h"
#include "generate/result.h"
#include "generate/sampler.h"
#include "generate/watch.h"
#include "tensor/dtype.h"
#include "tokenizer/tokenizer.h"
#include "train/progress.h"

namespace vitrine {

struct ChatMessage {
  std::string role;      ///< "system", "user", "assistant", or another one that the template knows.
  std::string content;   ///< UTF-8.
  std::string fields{};  ///< Further keys, as a JSON object: `{"tool_calls": […]}`.
};

/// A conversation. The model's chat template writes it as a text, which ends with what asks for an answer.
struct Chat {
  std::vector<ChatMessage> messages;
  std::string tools{};  ///< A JSON list, for templates that describe tools.
  /// Further variables of the template: names and JSON values, such as `{"enable_thinking", "false"}`.
  std::vector<std::pair<std::string, std::string>> variables{};
  std::string now{};  ///< The date and time that the template reads, `2026-01-02T03:04:05`; "": those of the call.
};

/// A text, its token ids, or a conversation. For a text, the tokenizer adds its special tokens (such as BOS), and
/// special tokens that are written in the text are recognized; an empty text becomes BOS alone. Ids are used unchanged.
/// In a conversation, special tokens are recognized only where the template wrote them, and none are added.
using Prompt = std::variant<std::string, std::vector<std::int32_t>, Chat>;

/// Opens a tokenizer: a file, or a folder that contains one, or that of a model on a hub (hf:ORG/NAME), of which no
/// weights are fetched unless they are in the same file. `poll` is called as OpenOptions::poll. Throws as
/// load_tokenizer(), and as LanguageModel::open().
std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path, const TokenizerOptions& options = {},
                                                const std::function<void()>& poll = {});

struct SessionOptions {
  std::int64_t capacity = 0;  ///< Maximum length of the sequence in tokens; 0: the model's context.
  Watch watch{};
};

/// Which values of a forward to return, and what to write into it.
struct TraceOptions {
  /// Globs over names of sites, such as `blocks.*.attn.hook_pattern`; none: all but those on demand. The names are
  /// TransformerLens's; `vitrine trace` prints them.
  std::vector<std::string> sites{};
  /// Writes, such as `blocks.2.attn.hook_z[:,1]=0`; `*=` and `+=` are also allowed. The index has one entry for each
  /// dimension, beginning with the first: a number (from the end if negative), a range `a:b`, or `:`; missing entries
  /// are `:`.
  std::vector<std::string> writes{};
  Watch watch{};  ///< Its function is called after the writes of a site.
  /// The ids that the decoder of an encoder–decoder reads, beginning with its start symbol; else empty.
  std::vector<std::int32_t> target{};
  /// If not empty, receives the logits `[T, V]`; the value of hook_logits is then empty. Not with gradients.
  std::span<float> logits{};
  /// Also returns NAME_grad, the gradient of the mean next-token loss with respect to each selected value.
  bool gradients = false;
};

/// What else a gradient of parameters depends on.
struct GradOptions {
  Watch watch{};
  std::vector<std::int32_t> target{};  ///< As in TraceOptions.
};

/// Sequences of one length that share a pass, for callers with an automatic differentiation of their own.
struct BatchOptions {
  /// Called as in trace(), with the rows of all sequences: values are `[B · T, …]`, scores and patterns `[B, H, T, S]`.
  Watch watch{};
  std::span<float> logits{};  ///< If not empty, receives the logits `[B · T, V]`.
  /// The gradients `[B · T, V]` of the logits, from a loss that the caller has computed. If there are any, the forward
  /// is followed by a backward, and `logits` is not written.
  std::span<const float> logit_gradients{};
  /// Globs over the sites at which `on_gradient` is called, in the backward and in reverse order, with the gradient
  /// with respect to the value after the watch. What it leaves there flows on to the value before the watch: it is the
  /// caller who knows the derivative of a replacement.
  std::vector<std::string> gradient_sites{};
  SiteFunction on_gradient{};
  /// The layer at which the pass begins, with `stream` `[B · T, d]` as its blocks.{start}.hook_resid_pre; n_layers():
  /// the pass is the final norm and the head. Only the number of ids then matters. Absent: it begins with the
  /// embedding.
  std::optional<std::int64_t> start{};
  std::span<const float> stream{};
  /// In a backward, receives the gradient with respect to `stream`; valid only during the call.
  std::function<void(std::span<const float> gradient)> on_stream_gradient{};
};

/// A tensor of float32 values.
struct NamedValue {
  std::string name;                 ///< `blocks.3.attn.hook_q`
  std::vector<std::int64_t> shape;  ///< For example `[T, n_heads, head_dim]`.
  std::vector<float> values;        ///< Row-major.
};

/// An intermediate value of a forward, after any write into it.
using SiteValue = NamedValue;

/// A parameter as it is stored.
struct StateTensor {
  std::string name;  ///< In the file.
  DType type = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;     ///< Row-major.
  std::shared_ptr<const void> owner{};  ///< Keeps the memory, in a result of LanguageModel::state().
};

class Session;
class TextStepper;

/// A model with its tokenizer, ready to run. This is a handle: copies are cheap and share one model. The weights are
/// mapped into memory, not read in advance.
///
/// Threads: every function may be called by any number of threads at the same time, on one object or on copies of it,
/// and also from a callback. Of the calls that run at the same time on a model, four use OpenOptions::threads threads
/// each, and any others use only the calling thread. The model keeps the worker threads of these four calls, and no
/// others. The bits of a result depend neither on the number of threads nor on concurrent calls.
///
/// In an encoder–decoder, generate(), stepper(), trace() and grad() give the prompt to the encoder. The other calls
/// that take a prompt throw Unsupported.
///
/// Calls that take a `cancel` throw Interrupted within milliseconds after a stop is requested. Prompts need not be
/// trusted: a prompt that does not fit throws BadInput. If memory is exhausted, calls throw OutOfCapacity or
/// std::bad_alloc.
class LanguageModel {
 public:
  /// Opens a Hugging Face folder, a GGUF file or a llama2.c file, and its tokenizer. The format is detected from the
  /// content. `path`, and the paths in the options, may be names of models on a hub, `hf:ORG/NAME[:QUANTIZATION]
  /// [@REVISION]`: what huggingface_hub's cache lacks of them is fetched first. Throws BadInput if the path does not
  /// exist, BadCheckpoint for a broken file and for an adapter that does not fit the model, Unsupported for a model or
  /// an adapter that vitrine does not implement. A checkpoint without a tokenizer can be opened; its prompts must be
  /// ids.
  static LanguageModel open(const std::string& path, const OpenOptions& options = {});

  /// A model of tensors in memory, with the names and shapes that a Hugging Face folder with this config.json has. They
  /// are not copied: `owner` keeps the memory, which must not change during calls. Throws as open() does.
  static LanguageModel from_tensors(const std::string& config_json, const std::vector<StateTensor>& tensors,
                                    std::shared_ptr<const void> owner, const OpenOptions& options = {});

  const std::string& description() const;  ///< The family or format, for display.
  std::int64_t vocab_size() const;         ///< V; ids are in [0, V).
  std::int64_t max_seq_len() const;        ///< The context: maximum length of prompt and continuation together.
  std::int64_t d_model() const;
  std::int64_t n_layers() const;

  /// The values of the checkpoint (generation_config.json), and SamplingConfig's defaults for all values that it does
  /// not give.
  SamplingConfig default_sampling() const;
  /// What `vitrine info --json` prints about the model.
  std::string info_json() const;
  /// The config.json of the model; "" if its format has none.
  const std::string& config_json() const;

  /// Throws BadInput with the reason if the model has no tokenizer.
  const Tokenizer& tokenizer() const;

  /// The ids `[T]` that a call with this prompt processes. Throws BadInput for a text if there is no tokenizer, and for
  /// an empty text if there is no BOS; for a conversation, as render() does.
  std::vector<std::int32_t> ids(const Prompt& prompt) const;

  /// What the decoder of an encoder–decoder reads for a text: the start symbol, then the text. Throws BadInput for a
  /// model without an encoder, and if there is no tokenizer.
  std::vector<std::int32_t> target_ids(const std::string& text) const;

  /// The text of a conversation, with the bytes of transformers' `apply_chat_template`. Throws BadInput if the model
  /// has no chat template or no tokenizer, for JSON that is malformed, and if the template refuses the conversation or
  /// is malformed.
  std::string render(const Chat& chat) const;

  /// The `n` most likely tokens after the prompt, most likely first; equally likely tokens are in ascending order of
  /// ids. Log-probabilities are natural logarithms of the softmax over V, in double.
  std::vector<TokenLogprob> next(const Prompt& prompt, int n = 10, std::stop_token cancel = {}) const;

  /// The same after every prefix of the prompt: T lists, the last of which is the result of next().
  std::vector<std::vector<TokenLogprob>> predict(const Prompt& prompt, int n = 10, std::stop_token cancel = {}) const;

  /// Continues a text up to a stop id, a stop string, max_tokens or the end of the context. The token that the template
  /// puts after an answer, such as <|im_end|>, also ends the answer to a conversation. The rules of the checkpoint
  /// (generation_config.json: suppressed tokens, for example) apply. Also throws BadInput for options outside their
  /// ranges.
  GenerateResult generate(const Prompt& prompt, const GenerateOptions& options = {}, std::stop_token cancel = {}) const;

  /// The same, step by step. `options.on_text` must be empty.
  TextStepper stepper(const Prompt& prompt, const GenerateOptions& options = {}) const;

  /// The logits of every position, `[T, V]` in row-major order: row t scores the token after ids[0 … t].
  std::vector<float> logits(const Prompt& prompt, std::stop_token cancel = {}) const;

  /// The same, row by row in ascending order, in memory that does not grow with T × V. `row` is valid only during the
  /// call.
  using ReceiveLogits = std::function<void(std::int64_t position, std::span<const float> row)>;
  void logits(const Prompt& prompt, const ReceiveLogits& receive, std::stop_token cancel = {}) const;

  /// Runs the prompt once and returns the selected values in the order of the forward. Reading changes no bit; a write
  /// changes the values computed from it. Throws BadInput for a glob or a write that matches no site of this model, for
  /// an encoder–decoder without a target, and for another model with one.
  std::vector<SiteValue> trace(const Prompt& prompt, const TraceOptions& options = {},
                               std::stop_token cancel = {}) const;

  /// The `top` strongest features of OpenOptions::dictionaries at each token: what `vitrine features --json` prints.
  /// Throws BadInput for a model without dictionaries, Unsupported for an encoder–decoder.
  std::string features_json(const Prompt& prompt, std::size_t top = 5, std::stop_token cancel = {}) const;

  /// Runs B sequences of the same length as one pass; `ids` is `[B, T]`. Without logits and logit_gradients, the
  /// pass ends after the last watched site. Weights are multiplied as with Compute::f32, so a run with gradients has
  /// the bits of one without. Throws BadInput for ids that are not B sequences and for a glob that matches no site,
  /// Unsupported for a model with an encoder, and, with gradients, for other keys and values than f32.
  void run(std::span<const std::int32_t> ids, std::int64_t n_sequences, const BatchOptions& options,
           std::stop_token cancel = {}) const;

  /// A parameter under vitrine's name, which is the same in all families (`blocks.3.attn.wq.weight`), as the forward
  /// uses it: `[out, in]`, a norm's weight with its offset, an embedding with its scale (one that encoder and decoder
  /// share: that of the decoder). `unembed.weight` also exists if it is tied. Throws BadInput if the model has no such
  /// parameter.
  NamedValue parameter(const std::string& name) const;

  /// The mean cross-entropy over the ids, in nats, where position t predicts id t + 1, and its gradient with respect to
  /// every parameter, as `vitrine grad` writes it: float32, with the file's names, shapes and orientation. `receive` is
  /// called once for each tensor, at the end. In an encoder–decoder, the ids are those of the target. Throws
  /// BadInput for fewer than two ids and as trace() does, Unsupported for quantized weights, for other keys and values
  /// than f32, and for a model with adapters.
  double grad(const Prompt& prompt, const std::function<void(NamedValue gradient)>& receive,
              const GradOptions& options = {}, std::stop_token cancel = {}) const;

  /// The tensors of the checkpoint under the file's names, without copies: the memory is the model's. Throws
  /// Unsupported for quantized tensors and for formats without names of tensors. The tensors of a model in training are
  /// copies of the moment, in float32 or bfloat16.
  std::vector<StateTensor> state() const;
  /// Writes a Hugging Face folder, which must not exist or is replaced: tensors as they are, config.json, tokenizer.
  /// Throws Unsupported for a model that was opened from another format.
  void save(const std::string& folder) const;

  /// A sequence to which the caller feeds tokens. Throws BadInput for a capacity greater than the context.
  Session session(const SessionOptions& options = {}) const;

 private:
  friend class Session;
  friend class TextStepper;
  friend class TrainingRun;
  friend struct ModelAccess;
  struct State;
  class Call;
  explicit LanguageModel(std::shared_ptr<const State> state);

  std::shared_ptr<const State> state_;
};

/// One sequence with its KV cache. It can be fed token by token or in parts of any length; the bits of the results are
/// the same.
///
///   auto session = model.session();
///   session.feed(model.ids("Once upon a time"));
///   const SamplingConfig greedy{.temperature = 0};
///   for (int i = 0; i < 40; ++i) session.feed(sample(session.logits(), session.ids(), greedy, {}));
///
/// Not thread-safe: use it from one thread at a time. A session keeps the model open.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Appends tokens and computes the logits after the last of them. Throws BadInput, without effect, for ids outside
  /// the vocabulary and for more ids than the remaining capacity. After any other error the session is closed, and all
  /// further calls throw BadInput.
  void feed(std::span<const std::int32_t> ids, std::stop_token cancel = {});
  void feed(std::int32_t id, std::stop_token cancel = {});

  std::span<const float> logits() const;         ///< `[V]`, after the last token; empty before the first.
  const std::vector<std::int32_t>& ids() const;  ///< All tokens so far: the history for sample().

 private:
  friend class LanguageModel;
  struct State;
  explicit Session(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// A text that the caller lets grow.
///
///   auto text = model.stepper("Once upon a time");
///   while (const auto piece = text.next()) std::cout << *piece;
///
/// Not thread-safe. It keeps the model open.
class TextStepper {
 public:
  TextStepper(TextStepper&&) noexcept;
  TextStepper& operator=(TextStepper&&) noexcept;
  ~TextStepper();

  /// The next whole characters; nothing once the text has ended. After an error, there are none.
  std::optional<std::string> next();
  /// The result. Throws BadInput before the text has ended.
  const GenerateResult& result() const;

 private:
  friend class LanguageModel;
  struct State;
  explicit TextStepper(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// How a model is trained.
struct TrainOptions {
  int threads = 0;                      ///< 0: all processors that the process may use.
  bool resume = false;                  ///< Continue from the last checkpoint in the run's folder, with the same bits.
  std::optional<std::uint64_t> seed{};  ///< Replaces that of the config.
  std::string tokenizer{};              ///< Replaces that of the config.
  std::function<void(const std::string& line)> message{};  ///< Receives messages, such as the plan of the run.
  std::function<void()> poll{};                            ///< As in OpenOptions.
};

/// A run of training, step by step:
///
///   auto run = vitrine::TrainingRun::open("config.toml");
///   while (const auto step = run.step()) std::cout << step->loss << "\n";
///   run.finish();
///
/// It writes checkpoints and metrics into the config's folder, as `vitrine train` does. Not thread-safe.
class TrainingRun {
 public:
  /// `config` is the path of a .toml file. Reads all inputs; the first step writes the first file. Throws BadInput for
  /// errors in the config or the data, and as LanguageModel::open().
  static TrainingRun open(const std::string& config, const TrainOptions& options = {});
  /// `tables` is the same config as a JSON object.
  static TrainingRun of_json(const std::string& tables, const TrainOptions& options = {});
  TrainingRun(TrainingRun&&) noexcept;
  TrainingRun& operator=(TrainingRun&&) noexcept;
  ~TrainingRun();

  /// Runs one step; nothing if the run has no further one. If it is cancelled or fails, it saves the last complete step
  /// and throws; the run is then over. Throws BadInput, without effect, while a call on model() runs.
  std::optional<TrainProgress> step(std::stop_token cancel = {});
  /// Saves a checkpoint of the last step, unless it has one.
  TrainResult finish();
  /// The model in training, which changes with every step. A call on it waits for the end of a step.
  LanguageModel model() const;

 private:
  struct State;
  explicit TrainingRun(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

/// The version of the library: `0.1.0`.
std::string version();

/// Writes values to a safetensors file, one float32 tensor each. The file is written completely or not at all. Throws
/// BadInput if the file cannot be written or a shape does not match its values, OutOfCapacity if the disk is full.
void save_sites(const std::string& path, std::span<const SiteValue> sites);

}  // namespace vitrine
