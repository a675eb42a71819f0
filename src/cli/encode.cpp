// vitrine encode: vectors of texts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "checkpoint/npy.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/text_inputs.h"
#include "cli/texts.h"
#include "cli/vector_output.h"
#include "generate/encode.h"

namespace vitrine::cli {
namespace {

struct EncodeCommandOptions : TextInputOptions {
  VectorInputOptions input;
  std::string pool, out, precision = "float32", ranges;
  std::optional<std::int64_t> dimensions;
  bool no_normalize = false, sparse = false, multi_vector = false;
};

/// Throws for options that do not apply to what the folder makes of a text.
void check(const EncodeCommandOptions& o, const SentenceConfig& folder) {
  const bool has_tokens = folder.result() == TextValue::tokens;
  if (folder.result() == TextValue::scores) {
    throw Unsupported("encode", "the folder is a CrossEncoder, which makes scores of pairs (vitrine rerank)");
  }
  if (o.sparse && !folder.is_sparse()) throw Unsupported("--sparse", "the vectors are no weights of words");
  if (o.multi_vector && !has_tokens) throw Unsupported("--multi-vector", "the folder makes one vector of a text");
  if (o.sparse && precision_named(o.precision) != VectorPrecision::float32) {
    throw UsageError("--precision", "give --sparse or --precision, not both");
  }
}

VectorOutputOptions output_of(const EncodeCommandOptions& o, const SentenceConfig& folder) {
  VectorOutputOptions output{.json = o.json,
                             .is_sparse = o.sparse,
                             .has_tokens = folder.result() == TextValue::tokens,
                             .precision = precision_named(o.precision),
                             .out = o.out};
  if (o.ranges.empty()) return output;
  if (!has_ranges(output.precision)) throw UsageError("--ranges", "give --precision int8 or uint8, too");
  const NpyMatrix matrix = read_npy(o.ranges);
  if (matrix.rows != 2) throw BadInput(o.ranges, "expected [2, d] (lowest and highest), got {} rows", matrix.rows);
  if (!std::all_of(matrix.values.begin(), matrix.values.end(), [](float x) { return std::isfinite(x); })) {
    throw BadInput(o.ranges, "expected finite numbers");
  }
  output.ranges.low.assign(matrix.values.begin(), matrix.values.begin() + matrix.cols);
  output.ranges.high.assign(matrix.values.begin() + matrix.cols, matrix.values.end());
  return output;
}

VectorOptions vector_options(const EncodeCommandOptions& o) {
  VectorOptions options{.dimensions = o.dimensions, .max_rows = o.batch * kRowsOfText};
  if (o.no_normalize) options.normalize = false;
  if (o.pool == "mean") options.pooling = PoolStep::Mode::mean;
  if (o.pool == "cls") options.pooling = PoolStep::Mode::cls;
  if (o.pool == "max") options.pooling = PoolStep::Mode::max;
  if (o.pool == "last") options.pooling = PoolStep::Mode::last;
  return options;
}

/// Encodes the texts that wait.
void encode_all(const EncodeCommandOptions& o, const Session& session, TextInputs& inputs, VectorOutput& output) {
  std::vector<TextVectors> vectors(inputs.size());
  const GenerateContext context = session.context(o);
  if (o.pool == "pooler") {
    if (o.dimensions) throw UsageError("--dimensions", "not with --pool pooler");
    const EncodeOptions options{std::nullopt, inputs.config().normalize && !o.no_normalize, o.batch * kRowsOfText};
    encode(context, inputs.texts().ids, options, [&](std::size_t i, std::span<const float> vector) {
      vectors[i] = {1, std::ssize(vector), {vector.begin(), vector.end()}};
    });
  } else {
    read_vectors(context, inputs.config(), inputs.texts(), vector_options(o),
                 [&](std::size_t i, TextVectors own) { vectors[i] = std::move(own); });
  }
  for (std::size_t i = 0; i < vectors.size(); ++i) output.add(inputs.ids(i), std::move(vectors[i]));
  inputs.clear();
}

void run_encode(const EncodeCommandOptions& o) {
  if ((o.positionals == 2) + o.lines + o.has_ids() > 1) throw UsageError("TEXT", "give one of TEXT, --lines and --ids");
  if (o.positionals == 0 && !o.lines && !o.has_ids()) throw MissingArgument("TEXT");
  const bool has_model = o.positionals == 2 || ((o.lines || o.has_ids()) && o.positionals == 1);
  const Session session = open_for_texts(o, has_model ? o.first : "", !o.lines && !o.has_ids());
  TextInputs inputs(session, o);
  inputs.use(o.input);
  check(o, inputs.config());
  stop_cleanly();
  VectorOutput output(output_of(o, inputs.config()), [&](std::int32_t id) { return session.piece(id); });
  if (o.has_ids()) {
    inputs.add(o.ids);
    encode_all(o, session, inputs, output);
  } else {
    const std::string text = o.positionals == 2 ? o.second : o.first;
    for_each_batch(o, TextReader(o.lines ? "-" : text, !o.lines && text != "-"), inputs,
                   [&] { encode_all(o, session, inputs, output); });
  }
  inputs.report_cut();
  output.finish();
}

}  // namespace

void add_encode(Command& program) {
  const auto [command, o] =
      new_command<EncodeCommandOptions>(program, "encode", "Show a vector for each line of a text: its embedding");
  add_model_and_text(command, *o);
  o->takes_one_model = [&lines = o->lines] { return lines; };
  command.add_flag("--lines", o->lines, "Read a JSON string, or a list of ids, from each line of stdin");
  add_vector_inputs(command, o->input);
  add_choice(command, "--pool", o->pool, {"mean", "cls", "max", "last", "pooler"},
             "How rows become one vector: mean, cls, max, last or pooler (default: the model's, else mean)");
  command.add_flag("--no-normalize", o->no_normalize, "Do not divide vectors by their lengths");
  add_number<std::int64_t>(command, "--dimensions", o->dimensions,
                           "Cut vectors to their first N elements, and divide by the length again", 1);
  add_choice(command, "--precision", o->precision, {"float32", "int8", "uint8", "binary", "ubinary"},
             "The type of the elements: float32, int8, uint8, or bits in bytes: binary, ubinary (default: float32)");
  add_file(command, "--ranges", o->ranges,
           "File .npy [2, d] with the lowest and highest values for int8 and uint8 (default: those of all vectors)");
  command.add_flag("--sparse", o->sparse, "Show the weights of a SparseEncoder that are not 0, with their tokens");
  command.add_flag("--multi-vector", o->multi_vector, "The folder must make a vector of each token (late interaction)");
  command.add_flag("--no-truncate", o->no_truncate, "A text that is longer than the model reads is an error");
  add_number<std::int64_t>(command, "--batch", o->batch, "Texts to encode at once (default: 32)", 1, 4096);
  command.add_option("--out", o->out, "Also write the vectors to this .npy file: [n, d] in the type of --precision");
  finish_command(command, o, run_encode,
                 "TEXT - reads stdin, a text a line. The modules of a sentence-transformers folder are applied.\n"
                 "Example: vitrine encode \"A girl plays in the garden.\" --json");
}

}  // namespace vitrine::cli
