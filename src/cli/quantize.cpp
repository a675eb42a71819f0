// vitrine quantize: write a model as a GGUF file, with its matrices in the same or a smaller type.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/gguf/export.h"
#include "checkpoint/gguf/types.h"
#include "cli/against.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/tokenizer_keys.h"
#include "kernels/quantize.h"

namespace vitrine::cli {
namespace {

struct QuantizeOptions : Options {
  std::string model, out, type, importance, compare;
  std::vector<std::string> overrides;  // REGEX=TYPE
  bool pure = false, allow_requantize = false, dry_run = false;
};

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const FileType& type : file_types()) names.emplace_back(type.name);
  for (const char* const name : {"q3_k", "q4_k", "q5_k"}) names.emplace_back(name);
  return names;
}

DType tensor_type_named(const std::string& name) {
  for (std::size_t i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name_of(dtype) == name && (can_quantize(dtype) || !is_quantized(dtype))) return dtype;
  }
  throw UsageError("--tensor-type", fmt::format("{} is not a type of tensors", in_quotes(name)));
}

GgufTypes::Override parse_override(const std::string& text) {
  const std::size_t at = text.rfind('=');
  if (at == text.npos || at == 0) {
    throw UsageError("--tensor-type", fmt::format("expected REGEX=TYPE, got {}", in_quotes(text)));
  }
  std::string type = text.substr(at + 1);
  std::transform(type.begin(), type.end(), type.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  try {
    return {std::regex(text.substr(0, at)), tensor_type_named(type)};
  } catch (const std::regex_error&) {
    throw UsageError("--tensor-type", fmt::format("{} is not a regex", in_quotes(text.substr(0, at))));
  }
}

/// Throws BadInput for an override that no tensor's name matches.
void check_overrides(const QuantizeOptions& o, const GgufTypes& types, const GgufExport& written) {
  for (std::size_t i = 0; i < types.overrides.size(); ++i) {
    const auto matches = [&](const PlannedTensor& tensor) {
      return tensor.is_matrix && std::regex_search(tensor.name, types.overrides[i].pattern);
    };
    if (std::any_of(written.plan.begin(), written.plan.end(), matches)) continue;
    throw BadInput("--tensor-type", "{} matches the name of no matrix", in_quotes(o.overrides[i]));
  }
}

std::string_view type_name(DType dtype) { return shown_name(dtype); }

Json json_of(const QuantizeOptions& o, const GgufExport& written, std::int64_t source_bytes) {
  Json types = Json::object(), fallbacks = Json::array(), matrices = Json::array();
  for (const PlannedTensor& tensor : written.plan) {
    Json& count = types[std::string(type_name(tensor.dtype))];
    count = count.is_null() ? 1 : count.get<int>() + 1;
    if (tensor.dtype != tensor.wanted) {
      fallbacks.push_back(
          {{"tensor", tensor.name}, {"wanted", type_name(tensor.wanted)}, {"used", type_name(tensor.dtype)}});
    }
    if (!tensor.is_matrix) continue;
    Json matrix = {
        {"name", tensor.name}, {"shape", tensor.shape}, {"type", type_name(tensor.dtype)}, {"bytes", tensor.bytes()}};
    if (tensor.error) matrix["error"] = *tensor.error;
    matrices.push_back(matrix);
  }
  Json json = {{"out", o.dry_run ? Json(nullptr) : Json(o.out)},
               {"type", o.type},
               {"tensors", written.plan.size()},
               {"params", written.elements},
               {"bytes", written.bytes},
               {"source_bytes", source_bytes},
               {"bits_per_weight", 8 * static_cast<double>(written.bytes) / static_cast<double>(written.elements)},
               {"types", types},
               {"fallbacks", fallbacks},
               {"matrices", matrices}};
  if (!o.importance.empty()) json["unweighted"] = written.unweighted;
  return json;
}

std::string megabytes(std::int64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

/// Every matrix and its type.
void print_plan(const GgufExport& plan) {
  using enum Table::Align;
  Table table({{"tensor", left}, {"shape", left}, {"from", left}, {"to", left}, {"size", right}});
  for (const PlannedTensor& tensor : plan.plan) {
    const std::string_view from = type_name(tensor.parts.front().param->view.dtype);
    table.add({tensor.name, fmt::format("{}", fmt::join(tensor.shape, " × ")), std::string(from),
               std::string(type_name(tensor.dtype)), megabytes(tensor.bytes())});
  }
  print(table.text());
}

void print_summary(const QuantizeOptions& o, const GgufExport& written, std::int64_t source_bytes) {
  std::map<std::string_view, int> counts;
  for (const PlannedTensor& tensor : written.plan) ++counts[type_name(tensor.dtype)];
  std::string types;
  for (const auto& [name, count] : counts) types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count, name);
  print(fmt::format("{}: {} tensors ({}), {} parameters, {} (source: {}), {:.2f} bits per parameter\n",
                    o.dry_run ? "nothing written" : o.out, written.plan.size(), types, grouped(written.elements),
                    megabytes(written.bytes), megabytes(source_bytes),
                    8 * static_cast<double>(written.bytes) / static_cast<double>(written.elements)));
}

/// What the user may not expect.
void print_exceptions(const GgufExport& written) {
  std::map<std::string, int> fallbacks;
  for (const PlannedTensor& tensor : written.plan) {
    if (tensor.dtype == tensor.wanted) continue;
    ++fallbacks[fmt::format("{} instead of {}: rows of {} elements are not whole blocks", type_name(tensor.dtype),
                            type_name(tensor.wanted), tensor.cols)];
  }
  for (const auto& [text, count] : fallbacks) print(fmt::format("{} matrices are {}\n", count, text));
  for (const std::string& name : written.unweighted) {
    print(name + ": the importance matrix has no inputs of it, so it is quantized without\n");
  }
}

/// What the file predicts of a text, against what the model does.
Compared compare(const QuantizeOptions& o) {
  constexpr std::int64_t kWindow = 512;
  const Session own = open_model(o, o.out, false), other = open_model(o, o.model, true);
  EvalConfig config;
  config.window = std::min(kWindow, other.checkpoint.model->config().max_seq_len);
  config.bos = other.bos();
  const std::vector<std::int32_t> ids =
      text_ids(other, MappedFile::open_or_read(o.compare)->text(), SpecialTokens::apply);
  GenerateContext of_own = own.context(o);
  of_own.tokenizer = other.tokenizer.get();
  return evaluate_against(of_own, other.context(o), true, ids, config);
}

/// How much of each matrix is lost.
void print_errors(const GgufExport& written) {
  Table table({{"matrix", Table::Align::left}, {"type", Table::Align::left}, {"error", Table::Align::right}});
  for (const PlannedTensor& tensor : written.plan) {
    if (!tensor.error) continue;
    table.add({tensor.name, std::string(type_name(tensor.dtype)), fmt::format("{:.2f} %", 100 * *tensor.error)});
  }
  print(table.text());
}

void run_quantize(const QuantizeOptions& o) {
  std::error_code error;
  if (std::filesystem::equivalent(o.model, o.out, error)) {
    throw BadInput(o.out, "expected a file other than the model itself");
  }
  const Checkpoint checkpoint = load_checkpoint(o.model, {o.allowed_config_keys, o.allowed_tensors});
  GgufTypes types(file_type_named(o.type));
  for (const std::string& text : o.overrides) types.overrides.push_back(parse_override(text));
  types.pure = o.pure;
  types.allow_requantize = o.allow_requantize;
  std::optional<ImportanceMatrix> importance;
  if (!o.importance.empty()) types.importance = &importance.emplace(read_importance_matrix(o.importance));
  types.measures_errors = !o.compare.empty();
  const GgufSentences sentences = gguf_sentences(checkpoint.tokenizer_path, checkpoint);
  GgufExport written = plan_gguf(o.out, checkpoint, types, gguf_extras({}, sentences));
  check_overrides(o, types, written);

  ThreadPool pool(o.thread_count());
  std::string why_none;
  const GgufExtras extras = gguf_extras(tokenizer_keys(o, o.model, checkpoint, why_none), sentences);
  if (!o.dry_run) {
    stop_cleanly();
    ProgressBar bar("writing " + o.out);
    written = write_gguf(o.out, checkpoint, types, extras, pool, bar.reporter());
  }
  if (!why_none.empty()) note("the file contains no tokenizer: " + why_none);
  for (const std::string& text : checkpoint.notes) note(text);
  for (const std::string& text : written.notes) note(text);
  for (const std::string& text : sentences.notes) note(text);
  const std::int64_t before = stored_bytes(*checkpoint.model);
  std::optional<Compared> compared;
  if (!o.compare.empty() && !o.dry_run) compared = compare(o);
  if (o.json) {
    Json json = json_of(o, written, before);
    json["tokenizer"] = why_none.empty();
    if (compared) add_difference(compared->difference, json);
    return print_json(json);
  }
  if (o.dry_run) print_plan(written);
  print_summary(o, written, before);
  print_exceptions(written);
  if (!compared) return;
  print_errors(written);
  print(to_string(compared->difference));
}

}  // namespace

void add_quantize(Command& program) {
  const auto [command, o] = new_command<QuantizeOptions>(program, "quantize", "Write a model as a GGUF file");
  command.add_option("MODEL", o->model, "A Hugging Face folder, a .gguf, a llama2.c .bin or hf:ORG/NAME")
      ->required()
      ->type_name("");
  allow_hub(*o, o->model);
  command.add_option("OUT", o->out, "The .gguf file to write")->required()->type_name("");
  command
      .add_option("--type", o->type,
                  "Type of most matrices: f32, f16, bf16, q8_0, q6_k, q5_k_m, q5_k_s, q5_1, q5_0, q4_k_m, q4_k_s, "
                  "q4_1, q4_0, mxfp4, iq4_nl, iq4_xs, q3_k_l, q3_k_m, q3_k_s or q2_k")
      ->required()
      ->choices(type_names(), false)
      ->type_name("TYPE");
  add_file(command, "--imatrix", o->importance, "An importance matrix, of `vitrine imatrix` or llama.cpp");
  add_list(command, "--tensor-type", o->overrides,
           "REGEX=TYPE: the type of the matrices whose names contain a match; may be repeated, the first match counts");
  command.add_flag("--pure", o->pure, "Give all matrices the same type");
  command.add_flag("--allow-requantize", o->allow_requantize, "Quantize weights that are quantized already");
  command.add_flag("--dry-run", o->dry_run, "Print the type of every matrix; write nothing");
  add_file(command, "--compare", o->compare,
           "A text file: compare what the written file predicts of it with what MODEL does, in windows of 512");
  finish_command(command, o, run_quantize,
                 "Example: vitrine quantize gpt2/ gpt2-q4_k_m.gguf --type q4_k_m\n"
                 "docs/quantizing.md compares the types.");
}

}  // namespace vitrine::cli
