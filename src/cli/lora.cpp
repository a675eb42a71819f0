// vitrine lora: new, info, merge and convert, for low-rank adapters.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/folder_writer.h"
#include "checkpoint/adapters/create.h"
#include "checkpoint/adapters/merge.h"
#include "checkpoint/adapters/writer.h"
#include "checkpoint/gguf/export.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/writer.h"
#include "checkpoint/param_rows.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/tokenizer_keys.h"
#include "generate/classify.h"
#include "generate/encode.h"
#include "generate/evaluate.h"

namespace vitrine::cli {
namespace {

namespace fs = std::filesystem;

bool is_gguf(const std::string& path) { return path.ends_with(".gguf"); }

void refuse_same(const std::string& in, const std::string& out) {
  std::error_code error;
  if (fs::equivalent(in, out, error)) throw BadInput(out, "expected another path than {}", in);
}

/// Writes an adapter as a GGUF file or as a PEFT folder, by the name of `out`.
void write_adapter(const std::string& out, const Adapter& adapter, const Checkpoint& base, const PeftOptions& options) {
  if (is_gguf(out)) return write_gguf_adapter(out, adapter, base);
  FolderWriter folder(out);
  write_peft_adapter(folder.file(""), adapter, base, options);
  folder.commit();
}

std::int64_t count_elements(const Adapter& adapter) {
  std::int64_t n = 0;
  for_each_matrix(adapter, [&](const Param& param) { n += param.shape.count(); });
  return n;
}

struct LoraNewOptions : Options {
  std::string model, out;
  NewAdapter adapter;
  std::vector<std::string> targets;
  std::string scaling = "standard";
};

void run_lora_new(const LoraNewOptions& o) {
  refuse_same(o.model, o.out);
  const Session session = open_model(o, o.model, false);
  NewAdapter options = o.adapter;
  options.targets = o.targets;
  options.rslora = o.scaling == "rslora";
  const std::uint64_t seed = o.seed ? *o.seed : std::random_device{}();
  const WritableAdapter made = new_adapter(session.checkpoint, options, seed);
  stop_cleanly();
  write_adapter(o.out, *made.adapter, session.checkpoint, {.rslora = options.rslora, .base = o.model});
  const std::int64_t n = count_elements(*made.adapter);
  const std::size_t n_modules = made.adapter->places.size();
  if (o.json) return print_json({{"out", o.out}, {"params", n}, {"modules", n_modules}, {"seed", seed}});
  print(fmt::format("{}: rank {}, alpha {}, {} modules, {} parameters, seed {}\n", o.out, options.rank, options.alpha,
                    n_modules, grouped(n), seed));
}

struct LoraInfoOptions : Options {
  std::string adapter;
};

void run_lora_info(const LoraInfoOptions& o) {
  const AdapterFile file = open_adapter(o.adapter);
  Json modules = Json::array();
  Table table({{"module"}, {"A"}, {"B"}, {"alpha"}, {"scale"}, {"type"}});
  std::int64_t n = 0;
  for (const auto& [name, low] : file.modules) {
    for (const StoredTensor* tensor : {&low.a, &low.b}) {
      std::int64_t count = 1;
      for (const std::int64_t size : tensor->shape) count *= size;
      n += count;
    }
    if (low.magnitudes) n += low.magnitudes->shape[0];
    modules.push_back({{"name", name},
                       {"rank", low.rank},
                       {"alpha", low.alpha},
                       {"scale", low.scale},
                       {"in", low.a.shape.back()},
                       {"out", low.b.shape[low.b.shape.size() - 2]},
                       {"type", low.a.dtype}});
    table.add({name, fmt::format("[{}]", fmt::join(low.a.shape, ", ")),
               fmt::format("[{}]", fmt::join(low.b.shape, ", ")), fmt::format("{:g}", low.alpha),
               fmt::format("{:g}", low.scale), low.a.dtype});
  }
  if (o.json) {
    return print_json({{"path", file.path},
                       {"format", file.format},
                       {"architecture", file.architecture.empty() ? Json() : Json(file.architecture)},
                       {"rslora", file.rslora},
                       {"dora", file.dora},
                       {"params", n},
                       {"modules", modules}});
  }
  print(fmt::format("{}: {}{}{}, {} modules, {} parameters\n\n", file.path, file.format,
                    file.rslora ? ", rank-stabilized scale (alpha / √rank)" : "",
                    file.dora ? ", with magnitudes (DoRA)" : "", file.modules.size(), grouped(n)));
  print(table.text());
}

struct ConvertOptions : Options {
  std::string adapter, out, model;
};

void run_convert(const ConvertOptions& o) {
  refuse_same(o.adapter, o.out);
  Session session = open_model(o, o.model, false);
  use_adapter(session, o.adapter);
  const LoadedAdapter& adapter = *session.adapters.front();
  if (!adapter.saved.empty() && is_gguf(o.out)) {
    throw Unsupported(o.out, "GGUF adapters cannot replace the head for labels (modules_to_save): merge it instead");
  }
  stop_cleanly();
  write_adapter(o.out, adapter, session.checkpoint,
                {.rslora = adapter.rslora, .base = o.model, .saved = &adapter.saved});
  if (o.json) return print_json({{"out", o.out}, {"modules", adapter.places.size()}});
  print(fmt::format("{}: {} modules, {} parameters\n", o.out, adapter.places.size(), grouped(count_elements(adapter))));
}

struct MergeOptions : Options {
  std::vector<std::string> paths;
  std::string type;
};

/// Copies everything in the folder of a model but its weights and its config.
void copy_other_files(const fs::path& from, const fs::path& to) {
  const auto is_kept = [](const fs::path& path) {
    const std::string name = path.filename().string();
    for (const char* ending : {".safetensors", ".bin", ".pt", ".pth", ".h5", ".gguf", ".msgpack", ".onnx"}) {
      if (name.ends_with(ending)) return false;
    }
    const bool reads_images = name.ends_with("processor_config.json");  // of a wrapper; the text half alone is written
    return name != "config.json" && !reads_images && !name.ends_with(".index.json") && !name.ends_with(".tmp");
  };
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    if (!is_kept(entry.path())) continue;
    const bool is_templates = entry.is_directory() && entry.path().filename() == "additional_chat_templates";
    if (!entry.is_regular_file() && !is_templates) continue;
    fs::copy(entry.path(), to / entry.path().filename(), fs::copy_options::recursive);
  }
}

DType merge_type_named(const std::string& name) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    if (name_of(type) == name) return type;
  }
  throw InternalError("--type", "no type {}", name);
}

/// The type in which a weight is written: that of --type, else its own, bf16 for a quantized one.
DType merged_type(const MergeOptions& o, DType own) {
  if (!o.type.empty()) return merge_type_named(o.type);
  return is_quantized(own) ? DType::bf16 : own;
}

/// The model as a Hugging Face folder, in the names of the base.
void write_folder(const MergeOptions& o, const std::string& base_path, const std::string& out, const Checkpoint& base,
                  const Checkpoint& merged, ThreadPool& pool) {
  const ModelConfig& config = merged.model->config();
  StoredForm as{base.prefix, {}};
  std::vector<MatrixView> views;
  std::set<DType> types;
  const auto add = [&](const Param& param, const std::string& stored, DType own) {
    as.names.insert(stored);
    as.types[stored] = merged_type(o, own);
    views.push_back(param.view);
  };
  for_each_param(config, merged.model->params(), [&](const Param& param, const std::string& name, const Shape&) {
    std::string stored = param.stored_name;
    for (const AdapterPlace& place :
         stored.empty() ? usual_places(merged, AdapterFormat::peft) : std::vector<AdapterPlace>{}) {
      if (place.ours.front() == name) stored = place.module + ".weight";  // of a head that is no longer tied
    }
    const Param& own = name == "unembed.weight" ? weight_of(*base.model, name) : param;
    add(param, stored, own.view.dtype);
  });
  const ParamValues values = [&](std::size_t i, std::int64_t row, std::int64_t first_col, std::span<float> to) {
    read_row(views[i].col_range(first_col, static_cast<std::int64_t>(to.size())), row, to);
  };
  const DType dtype = merged_type(o, base.model->params().embed.view.dtype);
  FolderWriter folder(out);
  copy_other_files(base_path, folder.file(""));
  {
    ProgressBar bar("writing " + out);
    write_hugging_face_tensors(folder.file("model.safetensors"), *base.table, config, dtype, values, pool,
                               bar.reporter(), as);
  }
  Json json = parse_json(base.config, base_path);
  if (config.head.tied != base.model->config().head.tied) json["tie_word_embeddings"] = false;
  write_config_json(folder.file("config.json"), *base.table, std::move(json), dtype);
  folder.commit();
}

/// A text of the model's own: tokens that it samples, or arbitrary ones if it does not continue texts.
std::vector<std::int32_t> sample_text(const Session& session, const GenerateContext& context) {
  constexpr std::int64_t kTokens = 256;
  const ModelConfig& config = session.checkpoint.model->config();
  const std::int64_t n = std::min(kTokens, config.max_seq_len);
  std::vector<std::int32_t> ids = {session.bos().value_or(0)};
  if (config.encoder || is_bidirectional(config) || !config.has_head) {
    const std::int64_t v = config.encoder ? std::min(config.vocab_size, config.encoder->vocab_size) : config.vocab_size;
    for (std::int64_t i = 1; i < n; ++i) ids.push_back(static_cast<std::int32_t>((i * 7919 + 13) % v));
    return ids;
  }
  GenerateRequest request;
  request.prompt = ids;
  request.max_tokens = n - 1;
  request.sampling = {};
  request.sampling.temperature = 1;
  const GenerateResult result = generate(context, {&request, 1})[0];
  ids.insert(ids.end(), result.ids.begin(), result.ids.end());
  return ids;
}

/// The largest difference between the outputs of heads for labels, else between the means of all rows.
double largest_difference(const GenerateContext& p, const GenerateContext& q, const std::vector<std::int32_t>& ids) {
  const std::vector<std::vector<std::int32_t>> texts = {ids};
  const auto values_of = [&](const GenerateContext& context) {
    std::vector<float> values;
    if (context.model->config().task) {
      read_outputs(context, {texts}, EncodeOptions().max_rows, [&](std::size_t, const Tensor& outputs) {
        values.assign(outputs.data, outputs.data + outputs.count());
      });
    } else {
      encode(context, texts, {.normalize = false},
             [&](std::size_t, std::span<const float> vector) { values.assign(vector.begin(), vector.end()); });
    }
    return values;
  };
  const std::vector<float> of_p = values_of(p), of_q = values_of(q);
  double largest = 0;
  for (std::size_t i = 0; i < of_p.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(of_p[i]) - static_cast<double>(of_q[i])));
  }
  return largest;
}

void run_merge(const MergeOptions& o) {
  if (o.paths.size() < 3) throw MissingArgument("MODEL ADAPTER... OUT");
  const std::string &model = o.paths.front(), &out = o.paths.back();
  for (std::size_t i = 0; i + 1 < o.paths.size(); ++i) refuse_same(o.paths[i], out);
  Session session = open_model(o, model, false);
  for (std::size_t i = 1; i + 1 < o.paths.size(); ++i) use_adapter(session, o.paths[i]);
  const Checkpoint& base = session.checkpoint;
  const bool to_gguf = is_gguf(out), has_folder = fs::exists(fs::path(model) / "config.json");
  if (!to_gguf && !has_folder) {
    throw Unsupported(out, "a model that is not a Hugging Face folder can be merged into a .gguf only");
  }
  if (!to_gguf && !o.type.empty() && is_blocks(merge_type_named(o.type))) {
    throw Unsupported("--type", "{} needs an OUT that ends in .gguf", o.type);
  }
  const auto kept = [&](const Param& param) {
    const DType type = merged_type(o, param.view.dtype);
    return is_blocks(type) ? DType::f32 : type;  // the writer quantizes
  };
  const Checkpoint merged = merge_adapters(base, session.applied.adapters, kept, *session.pool);
  stop_cleanly();
  std::string why_none;
  if (to_gguf) {
    const DType own = weight_of(*base.model, session.applied.adapters.front().adapter->maps.begin()->first).view.dtype;
    const GgufSentences sentences = gguf_sentences(base.tokenizer_path, base);
    const GgufExtras extras = gguf_extras(tokenizer_keys(o, model, base, why_none), sentences);
    ProgressBar bar("writing " + out);
    GgufTypes types(merged_type(o, own));
    types.allow_requantize = true;
    const GgufExport exported = write_gguf(out, merged, types, extras, *session.pool, bar.reporter());
    for (const std::string& text : exported.notes) note(text);
    for (const std::string& text : sentences.notes) note(text);
  } else {
    write_folder(o, model, out, base, merged, *session.pool);
  }
  if (!why_none.empty()) note("the file contains no tokenizer: " + why_none);

  const Checkpoint written = load_checkpoint(out, {o.allowed_config_keys, o.allowed_tensors});
  const GenerateContext unmerged = session.context(o);
  GenerateContext of_merged = unmerged;
  of_merged.model = written.model.get();
  of_merged.modifiers = {};
  const std::vector<std::int32_t> ids = sample_text(session, unmerged);
  if (!base.model->config().has_head) {
    const double difference = largest_difference(unmerged, of_merged, ids);
    if (o.json) return print_json({{"out", out}, {"difference", difference}, {"positions", ids.size()}});
    return print(fmt::format("{}: compared with the unmerged model over {} tokens: the largest difference is {:.3g}\n",
                             out, ids.size(), difference));
  }
  const Divergence d = divergence(unmerged, of_merged, session.has_encoder() ? Tokens(ids, {}, ids) : Tokens(ids));
  if (o.json) {
    return print_json({{"out", out}, {"kl", d.kl}, {"same_top", d.same_top}, {"positions", d.positions}});
  }
  print(fmt::format(
      "{}: compared with the unmerged model over {} tokens: KL {:.3g} nats, the same most likely token {:.2f} %\n", out,
      d.positions, d.kl, 100 * d.same_top));
}

void add_new(Command& group) {
  const auto [command, o] =
      new_command<LoraNewOptions>(group, "new", "Write a new adapter, which changes nothing until it is trained");
  command.add_option("MODEL", o->model, "The base model")->required()->type_name("");
  allow_hub(*o, o->model);
  command.add_option("OUT", o->out, "The PEFT folder, or the .gguf, to write")->required()->type_name("");
  add_number<std::int64_t>(command, "--rank", o->adapter.rank, "Rank of the matrices (default: 8)", 1, 1 << 16);
  add_number<double>(command, "--alpha", o->adapter.alpha,
                     "What B · A · x is multiplied by, times the rank (default: 16)");
  add_choice(command, "--scaling", o->scaling, {"standard", "rslora"}, "standard: alpha / rank; rslora: alpha / √rank");
  add_list(
      command, "--target", o->targets,
      "q, k, v, o, gate, up, down, ssm (all of mixers with a state), or the name of a module; may be given several "
      "times (default: all eight)");
  finish_command(command, o, run_lora_new, "Example: vitrine lora new gpt2/ adapter/ --rank 16 --alpha 32 --seed 1");
}

void add_lora_info(Command& group) {
  const auto [command, o] = new_command<LoraInfoOptions>(group, "info", "Show what an adapter consists of");
  command.add_option("ADAPTER", o->adapter, "A PEFT folder or a .gguf")->required()->type_name("");
  allow_hub(*o, o->adapter);
  finish_command(command, o, run_lora_info, "Example: vitrine lora info adapter/");
}

void add_merge(Command& group) {
  const auto [command, o] = new_command<MergeOptions>(group, "merge", "Write a model whose weights include adapters");
  command.add_option("PATHS", o->paths, "MODEL ADAPTER[=SCALE]... OUT; OUT is a folder or a .gguf")
      ->required()
      ->type_name("");
  add_choice(command, "--type", o->type, {"f32", "f16", "bf16", "q8_0", "q4_0"},
             "Type of the weights: f32, f16 or bf16, in a .gguf also q8_0 or q4_0 (default: as stored, bf16 if "
             "they are quantized)");
  allow_hub(*o, o->paths);
  finish_command(command, o, run_merge,
                 "Prints how far the written model's predictions are from those of the model with the adapters, on a "
                 "text that it samples.\n"
                 "Example: vitrine lora merge gpt2/ adapter/ merged/");
}

void add_convert(Command& group) {
  const auto [command, o] = new_command<ConvertOptions>(group, "convert", "Write an adapter in the other format");
  command.add_option("ADAPTER", o->adapter, "A PEFT folder or a .gguf")->required()->type_name("");
  command.add_option("OUT", o->out, "The .gguf, or the PEFT folder, to write")->required()->type_name("");
  command.add_option("--model", o->model, "The base model, in either format")->required()->type_name("");
  allow_hub(*o, o->adapter);
  allow_hub(*o, o->model);
  finish_command(command, o, run_convert, "Example: vitrine lora convert adapter/ adapter.gguf --model gpt2/");
}

}  // namespace

void add_lora(Command& program) {
  Command& group = *program.add_subcommand("lora", "Make, show, merge and convert low-rank adapters");
  group.require_subcommand();
  add_new(group);
  add_lora_info(group);
  add_merge(group);
  add_convert(group);
}

}  // namespace vitrine::cli
