// vitrine trace: write the named intermediate values of a forward, and their gradients, to a safetensors file.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/safetensors.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/probe_options.h"
#include "cli/row_range.h"
#include "cli/table.h"
#include "cli/token_word.h"
#include "inspect/attribution.h"
#include "inspect/frozen_sites.h"
#include "inspect/objective.h"
#include "inspect/recorder.h"
#include "inspect/text_recorder.h"
#include "model/dry_run.h"

namespace vitrine::cli {
namespace {

struct TraceOptions : Options, SplitOptions, ProbeOptions {
  std::vector<std::string> globs;
  std::vector<std::string> writes;
  std::vector<std::string> frozen;
  bool gradients = false;
  std::optional<std::string> rows;
  std::optional<std::string> of;  // W or W-W
  std::int64_t position = -1;
  std::string out;

  bool has_gradients() const { return gradients || of.has_value(); }
};

/// The logit W, or the difference of logits W-W. Words may contain -, so the first division into two tokens counts.
Objective objective_of(const TraceOptions& o, const Session& session) {
  Objective objective;
  objective.position = resolve_position(o.position, static_cast<std::int64_t>(session.rows().size()));
  for (std::size_t at = o.of->find('-', 1); at != std::string::npos; at = o.of->find('-', at + 1)) {
    try {
      objective.token = token_of(session, o.of->substr(0, at));
      objective.against = token_of(session, o.of->substr(at + 1));
      return objective;
    } catch (const BadInput&) {  // this - is part of a word
      objective.against.reset();
    } catch (const UsageError&) {
      objective.against.reset();
    }
  }
  objective.token = token_of(session, *o.of);
  return objective;
}

/// The gradients of the outputs of a task head: 1 for the label --of, or 1 and −1 for A-B, of the text or of
/// --position.
std::vector<float> output_gradients_of(const TraceOptions& o, const Session& session) {
  const TaskHead& head = *session.checkpoint.model->config().task;
  const auto n = static_cast<std::int64_t>(session.rows().size());
  const bool is_of_rows = head.pool == TaskHead::Pool::none;
  const std::int64_t row = is_of_rows ? resolve_position(o.position, n) : 0;
  std::vector<float> gradients(static_cast<std::size_t>((is_of_rows ? n : 1) * head.n_labels()));
  const auto add = [&](const std::string& label, float factor) {
    const auto at = std::find(head.labels.begin(), head.labels.end(), label);
    if (at == head.labels.end()) return false;
    gradients[static_cast<std::size_t>(row * head.n_labels() + (at - head.labels.begin()))] += factor;
    return true;
  };
  if (add(*o.of, 1.0f)) return gradients;
  for (std::size_t at = o.of->find('-', 1); at != std::string::npos; at = o.of->find('-', at + 1)) {
    const std::string a = o.of->substr(0, at), b = o.of->substr(at + 1);
    const auto is_label = [&](const std::string& label) {
      return std::find(head.labels.begin(), head.labels.end(), label) != head.labels.end();
    };
    if (!is_label(a) || !is_label(b)) continue;
    add(a, 1.0f);
    add(b, -1.0f);
    return gradients;
  }
  throw BadInput("--of", "expected a label ({}), got {}", fmt::join(head.labels, ", "), *o.of);
}

/// The values to write and their bytes.
struct Size {
  std::int64_t values = 0, bytes = 0;
};

/// From a dry run, which also checks the names and the indices. Tokens are taken to be spread evenly over the experts.
Size size_of(const TraceOptions& o, const Session& session, const std::vector<SiteWrite>& writes,
             std::optional<RowSelection> rows) {
  Size size;
  const auto n = static_cast<std::int64_t>(session.rows().size());
  const Model model = shape_model(session.whole_model->config());
  Recorder recorder(o.globs, writes, site_layers(model.config(), session.applied.dictionaries),
                    [&](const SiteId& id, const Tensor& value) {
                      double share = 1;
                      if (rows && info(id).shape.dims()[0] != dims::n) {
                        share = static_cast<double>(rows->end - rows->begin) / static_cast<double>(n);
                      }
                      const int copies = o.has_gradients() && id.site != Site::tokens ? 2 : 1;
                      size.values += copies;
                      size.bytes += copies * static_cast<std::int64_t>(share * static_cast<double>(4 * value.count()));
                    });
  ThreadPool pool(1);
  const auto n_source = static_cast<std::int64_t>(session.ids.size());
  std::vector<Segment> sources;
  if (session.has_encoder()) sources = {{0, n_source}};
  DryPass dry(pool, {{0, n, 0, nullptr, session.has_encoder() ? 0 : -1}}, sources);
  dry.pass().taps = &recorder;
  for (Segment& segment : dry.pass().segments) segment.modifiers = session.applied;
  for (Segment& segment : dry.pass().sources) segment.modifiers = session.applied;
  dry.pass().logits = {LogitRequest::Rows::range, 0, n, {}};
  dry.run(model);
  recorder.check_all_met(true);
  return size;
}

void refuse_if_too_large(const TraceOptions& o, const Size& size) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::path(o.out).parent_path();
  const fs::space_info space = fs::space(folder.empty() ? fs::path(".") : folder, error);
  if (error || static_cast<std::uintmax_t>(size.bytes) <= space.available) return;
  throw OutOfCapacity(o.out, "expected {} bytes free on the disk, got {}; select --sites or --rows",
                      grouped(size.bytes), grouped(static_cast<std::int64_t>(space.available)));
}

/// Runs the forward, and the backward for --gradients or --of.
void run_pass(const TraceOptions& o, const Session& session, const GenerateContext& context,
              const std::optional<Objective>& objective) {
  Arena arena;
  Pass pass = session.make_pass(context, arena);
  pass.logits = {LogitRequest::Rows::range, 0, static_cast<std::int64_t>(session.rows().size()), {}};
  if (o.gradients) {
    Gradients of_no_params;
    backward_from_targets(session, pass, of_no_params);
  } else if (o.of && session.checkpoint.model->config().task) {
    Gradients of_no_params;
    backward_from_outputs(*session.checkpoint.model, pass, session.tokens(), output_gradients_of(o, session),
                          of_no_params);
  } else if (objective) {
    backward_from_objective(*session.checkpoint.model, pass, session.tokens(), *objective);
  } else {
    session.checkpoint.model->forward(pass, session.tokens());
  }
}

void run_trace(const TraceOptions& o) {
  std::vector<SiteWrite> writes;
  for (const std::string& text : o.writes) writes.push_back(parse_site_write(text));
  if (o.gradients && o.of) throw UsageError("--of", "gradients are those of the loss, or of --of");
  if (o.ranks != nullptr && o.has_gradients()) {
    throw Unsupported("--split", "expected a trace without gradients, which need one process");
  }
  Session session = o.gradients ? open_learning_session(o, "--gradients") : open_full_session(o);
  open_probes(o, o, session);
  GenerateContext context = session.context(o);
  const auto n = static_cast<std::int64_t>(session.rows().size());
  std::optional<RowSelection> rows;
  if (o.rows) rows = parse_rows(*o.rows, n);
  std::optional<Objective> objective;
  if (o.of && !session.checkpoint.model->config().task) objective = objective_of(o, session);

  Json sites = Json::array();
  std::optional<SafetensorsWriter> writer;
  std::vector<float> memory;
  const auto write = [&](const std::string& name, const Tensor& value) {
    if (!writer) return;  // rank 0 writes
    writer->add(name, value, [](std::int64_t, std::int64_t) {
      if (interrupted()) throw Interrupted();
    });
    sites.push_back({{"name", name}, {"shape", value.shape.sizes()}, {"bytes", value.count() * 4}});
  };
  const auto add = [&](const SiteId& id, const std::string& name, const Tensor& whole) {
    write(name, rows ? rows_of(id, whole, *rows, n, memory) : whole);
  };
  Recorder recorder(o.globs, writes, site_layers(session.checkpoint.model->config(), session.applied.dictionaries),
                    [&](const SiteId& id, const Tensor& value) { add(id, name_of(id), value); });
  if (rows) {
    recorder.receive_rows({rows->begin, rows->end},
                          [&](const SiteId& id, const Tensor& value) { write(name_of(id), value); });
  }
  if (o.has_gradients()) {
    recorder.receive_gradients([&](const SiteId& id, const Tensor& value) { add(id, name_of(id) + "_grad", value); });
  }
  context.check_ids(session.rows());
  const Size size = size_of(o, session, writes, rows);
  refuse_if_too_large(o, size);
  if (o.is_first() && is_terminal(STDERR_FILENO)) {
    note(fmt::format("{} values, about {} bytes", grouped(size.values), grouped(size.bytes)));
  }
  stop_cleanly();
  if (o.is_first()) {
    writer.emplace(o.out, trace_header_bytes(recorder.max_sites() * (o.has_gradients() ? 2 : 1)));
  }

  context.taps = &recorder;
  std::optional<FrozenPass> frozen;
  if (!o.frozen.empty()) {
    if (o.ranks != nullptr) throw Unsupported("--split", "expected a trace that freezes no sites (--freeze)");
    context.taps = &frozen.emplace(CleanRun(session.context(o), o.frozen, 0), recorder);
  }
  run_pass(o, session, context, objective);
  if (!o.is_first()) return;
  recorder.check_all_met();
  writer->commit();

  if (o.json) {
    Json object = {{"ids", session.ids}, {"bytes", size.bytes}, {"sites", sites}};
    if (session.has_encoder()) object["target_ids"] = session.target;
    return print_json(object);
  }
  for (const Json& site : sites) {
    print(fmt::format("{:<40} {:<20} {:>12}\n", site["name"].get<std::string>(), site["shape"].dump(),
                      site["bytes"].get<std::int64_t>()));
  }
}

}  // namespace

void add_trace(Command& program) {
  const auto [command, o] =
      new_command<TraceOptions>(program, "trace", "Write intermediate values of a forward to a .safetensors file");
  add_model_and_text(command, *o);
  add_second_input(command, *o);
  add_labels(command, *o);
  add_dictionaries(command, *o);
  add_probes(command, *o);
  add_list(command, "--sites", o->globs,
           "A glob of the names of sites to write (default: all but those on demand); may be given several times");
  add_list(command, "--set", o->writes,
           "Modify a site: 'SITE[index]=value', also *= and +=, or 'SITE[index]=@FILE', the value in another trace; "
           "may be given several times");
  add_list(command, "--freeze", o->frozen,
           "A glob of sites that keep their values of the run without --set; may be given several times");
  command.add_flag("--gradients", o->gradients,
                   "Also write SITE_grad, the gradient of the mean next-token loss with respect to each value");
  add_optional(command, "--of", o->of,
               "Also write SITE_grad, the gradient of the logit of W, a word or #ID, or of W-W, a difference");
  add_number<std::int64_t>(command, "--position", o->position,
                           "The position of that logit, from the end if negative (default: the last)");
  add_optional(command, "--rows", o->rows, "Write only positions A:B of each value");
  command.add_option("--out", o->out, "The file to write: one float32 tensor per site")->required();
  add_split(command, *o);
  finish_command(
      command, o, run_trace,
      "docs/sites.md lists the sites. The second example ablates head 2 of layer 0 by setting its z to 0.\n"
      "Example: vitrine trace gpt2/ --ids 464,3139,286 --sites '*.attn.hook_pattern' --out pattern.safetensors\n"
      "         vitrine trace gpt2/ --ids 464,3139,286 --set 'blocks.0.attn.hook_z[:,2]=0' --out silenced.safetensors");
}

}  // namespace vitrine::cli
