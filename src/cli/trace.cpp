// vitrine trace: write the named intermediate values of a forward, and their gradients, to a safetensors file.
#include <fmt/format.h>

#include "checkpoint/safetensors.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "inspect/recorder.h"

namespace vitrine::cli {
namespace {

constexpr std::int64_t kHeaderBytesPerSite = 200;

struct TraceOptions : Options {
  std::vector<std::string> globs;
  std::vector<std::string> writes;
  bool gradients = false;
  std::string out;
};

void run_trace(const TraceOptions& o) {
  std::vector<SiteWrite> writes;
  for (const std::string& text : o.writes) writes.push_back(parse_site_write(text));
  const Session session = o.gradients ? open_learning_session(o, "--gradients") : open_full_session(o);
  const Model& model = *session.checkpoint.model;
  GenerateContext context = session.context(o);

  Json sites = Json::array();
  std::optional<SafetensorsWriter> writer;
  const auto add = [&](const std::string& name, const Tensor& value) {
    writer->add(name, value, [](std::int64_t, std::int64_t) {
      if (interrupted()) throw Interrupted();
    });
    sites.push_back({{"name", name}, {"shape", value.shape.sizes()}, {"bytes", value.count() * 4}});
  };
  Recorder recorder(o.globs, writes, site_layers(model.config()),
                    [&](const SiteId& id, const Tensor& value) { add(name_of(id), value); });
  if (o.gradients) {
    recorder.receive_gradients([&](const SiteId& id, const Tensor& value) { add(name_of(id) + "_grad", value); });
  }
  stop_cleanly();
  writer.emplace(o.out, 64 + recorder.most_sites() * kHeaderBytesPerSite * (o.gradients ? 2 : 1));

  context.taps = &recorder;
  Arena arena;
  Pass pass = session.make_pass(context, arena);
  pass.logits = {LogitRequest::Rows::range, 0, static_cast<std::int64_t>(session.rows().size()), {}};
  if (o.gradients) {
    Gradients of_no_params;
    learn_targets(session, pass, of_no_params);
  } else {
    model.forward(pass, session.tokens());
  }
  recorder.check_all_met();
  writer->commit();

  if (o.json) {
    Json object = {{"ids", session.ids}, {"sites", sites}};
    if (session.has_encoder()) object["target_ids"] = session.target;
    return print_json(object);
  }
  for (const Json& site : sites) {
    print(fmt::format("{:<40} {:<20} {:>12}\n", site["name"].get<std::string>(), site["shape"].dump(),
                      site["bytes"].get<std::int64_t>()));
  }
}

}  // namespace

void add_trace(CLI::App& program) {
  CLI::App& command = *program.add_subcommand("trace", "Write intermediate values of a forward to a .safetensors file");
  const auto o = std::make_shared<TraceOptions>();
  add_model_and_text(command, *o);
  add_second_input(command, *o);
  add_labels(command, *o);
  add_list(command, "--sites", o->globs,
           "A glob of the names of sites to write (default: all but those on demand); may be given several times");
  add_list(command, "--set", o->writes,
           "Modify a site: 'SITE[index]=value', also *= and +=; may be given several times");
  command.add_flag("--gradients", o->gradients,
                   "Also write SITE_grad, the gradient of the mean next-token loss with respect to each value");
  command.add_option("--out", o->out, "The file to write: one float32 tensor per site")->required();
  finish_command(
      command, o, run_trace,
      "docs/sites.md lists the sites. The second example ablates head 2 of layer 0 by setting its z to 0.\n"
      "Example: vitrine trace gpt2/ --ids 464,3139,286 --sites '*.attn.hook_pattern' --out pattern.safetensors\n"
      "         vitrine trace gpt2/ --ids 464,3139,286 --set 'blocks.0.attn.hook_z[:,2]=0' --out silenced.safetensors");
}

}  // namespace vitrine::cli
