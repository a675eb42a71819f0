// vitrine bench: measure the speed of a model against the limits of this machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "checkpoint/adapters/create.h"
#include "cli/bench_network.h"
#include "cli/commands.h"
#include "cli/measure.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/speculation_options.h"
#include "cli/table.h"
#include "inspect/account.h"
#include "inspect/recorder.h"
#include "model/check_compute.h"
#include "model/count.h"
#include "train/learner.h"
#include "train/memory.h"

namespace vitrine::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions : Options, SpeculationOptions {
  std::string model;
  std::int64_t prompt = 256, generate = 32, batch = 1, sequence = 256;
  int repeats = 5;  // after a warm-up run
  bool train = false;
  std::vector<std::string> globs;  // of sites that are read
  bool network = false;
  double peer_timeout_s = kPeerTimeout_s;
};

struct TrainSpeed {
  double tokens_per_s = 0;
  double operations = 0;                    // FLOPs per token
  std::int64_t peak_rss = 0, estimate = 0;  // bytes
};

struct Result {
  Ceilings ceilings;
  std::string numbers;                                       // that products of prompts multiply: f32, bf16 or int8
  double prefill_tokens_per_s = 0, decode_tokens_per_s = 0;  // summed over all sequences
  double load_s = 0, first_token_s = 0;
  std::int64_t peak_rss = 0;                        // bytes
  double decode_bytes = 0, prefill_operations = 0;  // per token
  double kv_bytes = 0;                              // per token
  StateBytes state;                                 // of a sequence
  std::optional<TrainSpeed> train;
  std::optional<double> traced_prefill_tokens_per_s;

  double train_fraction() const { return train->tokens_per_s * train->operations / ceilings.f32_flops_per_s; }
  double decode_fraction() const { return decode_tokens_per_s * decode_bytes / ceilings.read_bytes_per_s; }
  /// The limit of the products of a prompt, operations per second.
  double product_limit() const {
    if (numbers == "int8") return ceilings.int8_operations_per_s;
    return ceilings.bf16_flops_per_s > 0 ? ceilings.bf16_flops_per_s : ceilings.f32_flops_per_s;
  }
  double prefill_fraction() const { return prefill_tokens_per_s * prefill_operations / product_limit(); }
};

/// Null if vitrine was built without oneDNN, which measures the limit of matrix products.
Json if_measured(double value) { return has_onednn() ? Json(value) : Json(); }
std::string percent_if_measured(double fraction) {
  return has_onednn() ? fmt::format("{:.0f} %", 100 * fraction) : std::string("?");
}
std::string limit_text(double limit, double operations, const char* unit) {
  const double giga = 1e9;
  if (!has_onednn()) return "unknown: built without oneDNN";
  return fmt::format("{:.0f} {}/s at {:.3g} {} per token", limit / giga, unit, operations / giga, unit);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The median of the runs after the first, which warms up.
double median_after_first(std::vector<double> values) {
  std::sort(values.begin() + 1, values.end());
  return values[1 + (values.size() - 1) / 2];
}

/// Prompts of arbitrary ids: different from each other, the same in every run.
std::vector<GenerateRequest> requests(const BenchOptions& o, const ModelConfig& config) {
  const std::int64_t vocab_size = config.encoder ? config.encoder->vocab_size : config.vocab_size;
  std::vector<GenerateRequest> all(static_cast<std::size_t>(o.batch));
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::int64_t t = 0; t < o.prompt; ++t) {
      all[i].prompt.push_back(
          static_cast<std::int32_t>((t * 7919 + static_cast<std::int64_t>(i) * 104729 + 13) % vocab_size));
    }
    if (config.encoder) {
      all[i].source = std::exchange(all[i].prompt, {0});
    }
    all[i].max_tokens = o.generate + 1;  // the prefill yields the first one
    all[i].sampling.temperature = 0;
    all[i].sequence = i;
  }
  return all;
}

GenerateTimings run_once(const GenerateContext& context, const std::vector<GenerateRequest>& requests) {
  GenerateTimings timings;
  generate(context, requests, {}, &timings);
  return timings;
}

/// Sets the bytes that decoding reads per token, and the operations per prompt token, from the model's account.
void count_work(const BenchOptions& o, const Model& model, Result& result) {
  const double bytes_per_weight =
      static_cast<double>(stored_bytes(model)) / static_cast<double>(count_params(model.config()));
  const std::int64_t half = std::max<std::int64_t>(1, o.generate / 2);  // of the decoding, on average
  Workload work{Phase::decode, o.batch, model.config().encoder ? half : o.prompt + half, bytes_per_weight,
                kv_types(o.kv)};
  if (model.config().encoder) work.source_length = o.prompt;
  const Cost step = account(model.config(), work).total;
  result.decode_bytes = (step.weight_bytes + step.kv_bytes) / static_cast<double>(o.batch);
  result.kv_bytes = kv_bytes_per_token(model.config(), work.kv);
  result.state = state_bytes(model.config());
  work.phase = Phase::prefill;
  if (!model.config().encoder) work.length = o.prompt;
  for (const Account::Layers& layers : account(model.config(), work).layers) {
    for (const Op& op : layers.ops) {
      if (op.cost.weight_bytes > 0)
        result.prefill_operations += op.cost.flops * static_cast<double>(layers.group.count());
    }
  }
  result.prefill_operations /= static_cast<double>(o.batch * o.prompt);
}

/// What learns: the adapter, if one is given, else a copy of the model.
Trainable trainable_of(const Session& session) {
  if (session.adapters.empty()) {
    return copy_trainable(session.checkpoint.model, DType::f32, *session.pool, default_kernels());
  }
  if (session.adapters.size() > 1) throw Unsupported("--adapter", "one adapter at a time can be trained");
  return {session.checkpoint, writable_copy(*session.adapters.front())};
}

/// Of an adapter: without the products for the gradients of the base's weights.
double training_flops(const Trainable& trainable) {
  const double all = training_flops_per_token(trainable.model().config());
  if (trainable.adapter() == nullptr) return all;
  double n = 0;
  for (const TrainParam& param : trainable.params()) n += static_cast<double>(param.count());
  return all * 4 / 6 + 6 * n;
}

/// Times whole steps (forward, backward, clipping, AdamW) on arbitrary ids. If the weights are copied, the mapped file
/// stays in memory, so the estimate includes it.
TrainSpeed measure_training(const BenchOptions& o, const Session& session) {
  const Kernels& kernels = default_kernels();
  const std::shared_ptr<const Model>& model = session.checkpoint.model;
  ThreadPool& pool = *session.pool;
  forget_peak_memory();
  const Trainable trainable = trainable_of(session);
  const bool is_adapter = trainable.adapter() != nullptr;
  Optimizer optimizer({}, trainable.params());
  StepOptions options;
  options.batch = o.batch;
  options.seq_len = o.sequence;
  Learner learner(trainable, optimizer, options, pool, kernels, &interrupted());
  Batch batch;
  const std::int64_t vocab_size = model->config().vocab_size;
  for (std::int64_t i = 0; i < o.batch * o.sequence; ++i) {
    batch.inputs.push_back(static_cast<std::int32_t>((i * 7919 + 13) % vocab_size));
    batch.targets.push_back(static_cast<std::int32_t>(((i + 1) * 7919 + 13) % vocab_size));
    batch.counts.push_back(1);
    if (i % o.sequence == 0) batch.pieces.push_back({i, o.sequence});
    if (!model->config().encoder) continue;
    batch.sources.push_back(static_cast<std::int32_t>((i * 104729 + 13) % model->config().encoder->vocab_size));
  }
  if (!batch.sources.empty()) batch.source_pieces = batch.pieces;
  std::vector<double> speeds;
  for (int i = 0; i <= o.repeats; ++i) {
    const auto start = Clock::now();
    Learner::Step step = learner.forward_backward(batch, i);
    learner.update(step, 1e-4);
    speeds.push_back(static_cast<double>(o.batch * o.sequence) / seconds_since(start));
  }
  TrainWorkload workload{o.batch, o.sequence, DType::f32, optimizer.config().kind, options.recompute};
  if (is_adapter) workload.trainable = &trainable;
  const auto parts = training_memory(model->config(), workload, pool);
  return {median_after_first(speeds), training_flops(trainable), peak_memory(),
          std::llround(total_bytes(parts)) + (is_adapter ? 0 : stored_bytes(*model))};
}

/// Times prompts and decoding; if sites are chosen, also the prompts while a recorder copies their values to memory.
/// The two take turns, because the speed of a machine changes within seconds. Throws BadInput for a glob that matches
/// no site.
void measure_generation(const BenchOptions& o, const GenerateContext& context, ProgressBar& bar, Result& result) {
  const std::vector<GenerateRequest> prompts = requests(o, context.model->config());
  std::vector<GenerateRequest> prompts_alone = prompts;
  for (GenerateRequest& prompt : prompts_alone) prompt.max_tokens = 1;
  std::vector<float> copy;
  Recorder recorder(o.globs, {}, site_layers(context.model->config()),
                    [&](const SiteId&, const Tensor& value) { copy.assign(value.data, value.data + value.count()); });
  GenerateContext traced_context = context;
  traced_context.taps = &recorder;

  std::vector<double> prefill, decode, traced;
  for (int i = 0; i <= o.repeats; ++i) {
    const GenerateTimings speed = run_once(context, prompts);
    if (i == 0) {
      result.first_token_s = result.load_s + static_cast<double>(o.batch * o.prompt) / speed.prefill_tokens_per_s;
      result.peak_rss = peak_memory();
    }
    prefill.push_back(speed.prefill_tokens_per_s);
    decode.push_back(speed.decode_tokens_per_s);
    if (!o.globs.empty()) traced.push_back(run_once(traced_context, prompts_alone).prefill_tokens_per_s);
    bar.update(i + 2, o.repeats + 2);
  }
  if (!o.globs.empty()) {
    recorder.check_all_met();
    result.traced_prefill_tokens_per_s = median_after_first(traced);
  }
  result.prefill_tokens_per_s = median_after_first(prefill);
  result.decode_tokens_per_s = median_after_first(decode);
}

Result measure(const BenchOptions& o) {
  Result result;
  ProgressBar bar("bench");
  const auto start = Clock::now();
  const Session session = open_model(o, o.model, false);
  const Model& model = *session.checkpoint.model;
  result.load_s = seconds_since(start);
  result.numbers = products_name(model, session.compute);
  result.ceilings = measure_ceilings(*session.pool, result.numbers == "bf16");
  bar.update(1, o.repeats + 2);
  forget_peak_memory();
  count_work(o, model, result);
  OpenedSpeculation speculation(o, o, session, "none");
  GenerateContext context = session.context(o);
  context.speculation = speculation.get();
  measure_generation(o, context, bar, result);
  if (o.train) result.train = measure_training(o, session);
  result.ceilings.read_bytes_per_s = std::max(result.ceilings.read_bytes_per_s, measure_reading(*session.pool));
  return result;
}

void run_bench(const BenchOptions& o) {
  if (o.network) return run_bench_network(o.peer_timeout_s, o.json);
  require_one_process("bench");
  const Result r = measure(o);
  const int threads = o.thread_count();
  const std::string isa(name_of(default_kernels().isa));
  const double giga = 1e9;
  if (o.json) {
    return print_json(
        {{"prefill_tokens_per_s", r.prefill_tokens_per_s},
         {"decode_tokens_per_s", r.decode_tokens_per_s},
         {"traced_prefill_tokens_per_s", r.traced_prefill_tokens_per_s ? Json(*r.traced_prefill_tokens_per_s) : Json()},
         {"train_tokens_per_s", r.train ? Json(r.train->tokens_per_s) : Json()},
         {"decode_bytes_per_token", r.decode_bytes},
         {"kv_bytes_per_token", r.kv_bytes},
         {"state_bytes", r.state.states},
         {"snapshot_bytes", r.state.snapshot},
         {"prefill_ops_per_token", r.prefill_operations},
         {"train_ops_per_token", r.train ? Json(r.train->operations) : Json()},
         {"read_gb_per_s", r.ceilings.read_bytes_per_s / giga},
         {"gemm_gflops",
          {{"f32", if_measured(r.ceilings.f32_flops_per_s / giga)},
           {"int8", if_measured(r.ceilings.int8_operations_per_s / giga)},
           {"bf16", r.ceilings.bf16_flops_per_s > 0 ? Json(r.ceilings.bf16_flops_per_s / giga) : Json()}}},
         {"decode_fraction_of_bandwidth", r.decode_fraction()},
         {"prefill_fraction_of_peak", if_measured(r.prefill_fraction())},
         {"train_fraction_of_peak", r.train ? if_measured(r.train_fraction()) : Json()},
         {"train_peak_rss_bytes", r.train ? Json(r.train->peak_rss) : Json()},
         {"train_memory_estimate_bytes", r.train ? Json(r.train->estimate) : Json()},
         {"load_s", r.load_s},
         {"first_token_s", r.first_token_s},
         {"peak_rss_bytes", r.peak_rss},
         {"threads", threads},
         {"compute", r.numbers},
         {"isa", isa}});
  }
  constexpr auto kRight = Table::Align::right;
  Table table({{""}, {"tokens/s", kRight}, {"of the limit", kRight}, {"the limit"}});
  table.add({fmt::format("prefill {}", o.prompt), fmt::format("{:.1f}", r.prefill_tokens_per_s),
             percent_if_measured(r.prefill_fraction()),
             limit_text(r.product_limit(), r.prefill_operations, r.numbers == "int8" ? "GOP" : "GFLOP")});
  table.add(
      {fmt::format("decode {}", o.generate), fmt::format("{:.2f}", r.decode_tokens_per_s),
       fmt::format("{:.0f} %", 100 * r.decode_fraction()),
       fmt::format("{:.1f} GB/s at {:.3g} GB per token", r.ceilings.read_bytes_per_s / giga, r.decode_bytes / giga)});
  if (r.traced_prefill_tokens_per_s) {
    table.add({fmt::format("prefill {}, traced", o.prompt), fmt::format("{:.1f}", *r.traced_prefill_tokens_per_s),
               fmt::format("{:.0f} %", 100 * *r.traced_prefill_tokens_per_s / r.prefill_tokens_per_s),
               "the prefill without a recorder"});
  }
  if (r.train) {
    table.add(
        {fmt::format("train {} x {}", o.batch, o.sequence), fmt::format("{:.1f}", r.train->tokens_per_s),
         percent_if_measured(r.train_fraction()),
         fmt::format("{}; {:.0f} MB, {:.0f} MB estimated",
                     limit_text(r.ceilings.f32_flops_per_s, r.train->operations, "GFLOP"),
                     static_cast<double>(r.train->peak_rss) / 1e6, static_cast<double>(r.train->estimate) / 1e6)});
  }
  print(table.text());
  print(fmt::format(
      "{} sequences, {} threads, {}, {}; loaded in {:.2f} s, first token after {:.2f} s, peak memory {:.0f} MB\n",
      o.batch, threads, isa, r.numbers, r.load_s, r.first_token_s, static_cast<double>(r.peak_rss) / 1e6));
  if (r.state.states == 0) return;
  print(fmt::format("a sequence: state of {} bytes, K/V of {:.0f} bytes a token; a snapshot: {} bytes\n",
                    r.state.states, r.kv_bytes, r.state.snapshot));
}

}  // namespace

void add_bench(Command& program) {
  const auto [command, o] =
      new_command<BenchOptions>(program, "bench", "Measure the speed of a model against the limits of this machine");
  command.add_option("MODEL", o->model,
                     "A Hugging Face folder, a .gguf, a llama2.c .bin or hf:ORG/NAME (default: the default model)");
  allow_hub(*o, o->model);
  add_number<std::int64_t>(command, "--prompt", o->prompt,
                           "Tokens per prompt, or per source of an encoder–decoder (default: 256)", 1);
  add_number<std::int64_t>(command, "--generate", o->generate, "Tokens to decode after the prompt (default: 32)", 1);
  add_number<std::int64_t>(command, "--batch", o->batch, "Sequences per batch (default: 1)", 1, 4096);
  add_number<int>(command, "--repeats", o->repeats, "Timed runs, after one that warms up (default: 5)", 1, 1000);
  command.add_flag("--train", o->train, "Also time training steps: of the model, or of the adapter of --adapter");
  add_number<std::int64_t>(command, "--seq", o->sequence, "Tokens per training sequence (default: 256)", 1);
  add_list(command, "--sites", o->globs,
           "Also time the prefill while the sites that this glob matches are read; may be given several times");
  command.add_flag("--network", o->network,
                   "Measure the network instead: latency and bandwidth of every pair of ranks that mpirun or srun has "
                   "started");
  add_peer_timeout(command, o->peer_timeout_s);
  add_speculation(command, *o, *o, "none");
  add_modifiers(command, *o);
  finish_command(
      command, o, run_bench,
      "Speeds are medians of --repeats runs after a warm-up run. The limits, memory bandwidth and oneDNN's matrix\n"
      "products, are measured in the same process. A decoding step reads every weight that it multiplies and the K/V\n"
      "of all tokens so far, and reads and writes states; a prompt token takes two operations per weight outside the "
      "embedding and the head.\n"
      "Example: vitrine bench gpt2/ --prompt 512 --json");
}

}  // namespace vitrine::cli
