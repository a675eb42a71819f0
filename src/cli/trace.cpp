// vitrine trace: every named intermediate value of one forward, as a safetensors file.
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
  std::string out;
};

void run_trace(const TraceOptions& o) {
  std::vector<SiteWrite> writes;
  for (const std::string& text : o.writes) writes.push_back(parse_site_write(text));
  const Session session = open_session(o);
  const Model& model = *session.checkpoint.model;
  const GenerateContext context = session.context(o);

  Json sites = Json::array();
  std::optional<SafetensorsWriter> writer;
  const auto receive = [&](const SiteId& id, const Tensor& value) {
    writer->add(name_of(id), value);
    sites.push_back({{"name", name_of(id)}, {"shape", value.shape.sizes()}, {"bytes", value.count() * 4}});
  };
  Recorder recorder(o.globs, writes, static_cast<int>(model.config().blocks.size()), receive,
                    static_cast<int>(most_experts(model.config())));
  writer.emplace(o.out, 64 + recorder.most_sites() * kHeaderBytesPerSite);

  Arena arena;
  const auto n_rows = static_cast<std::int64_t>(session.ids.size());
  Pass pass{*context.pool,    *context.kernels, arena, {{0, n_rows, 0, nullptr}}, {}, &recorder,
            context.kv_dtype, context.interrupt};
  pass.logits = {LogitRequest::Rows::range, 0, n_rows, {}};
  model.forward(pass, session.ids);
  recorder.check_all_met();
  writer->commit();

  if (o.json) return print_json({{"ids", session.ids}, {"sites", sites}});
  for (const Json& site : sites) {
    print(fmt::format("{:<40} {:<20} {:>12}\n", site["name"].get<std::string>(), site["shape"].dump(),
                      site["bytes"].get<std::int64_t>()));
  }
}

}  // namespace

void add_trace(CLI::App& program) {
  CLI::App& command =
      *program.add_subcommand("trace", "Write the intermediate values of a forward to a .safetensors file");
  const auto o = std::make_shared<TraceOptions>();
  add_model_and_text(command, *o);
  add_list(command, "--sites", o->globs,
           "Sites to write, as a glob over names (default: all but the costly ones); may be given several times");
  add_list(command, "--set", o->writes,
           "Write into a site: 'SITE[index]=value', also *= and +=; may be given several times");
  command.add_option("--out", o->out, "The file, one float32 tensor a site")->required();
  add_common(command, *o);
  command.footer(
      "docs/sites.md lists the sites. A write of 0 into a head's z silences it: the second example, head 2 of layer "
      "0.\n"
      "Example: vitrine trace gpt2/ --ids 464,3139,286 --sites '*.attn.hook_pattern' --out pattern.safetensors\n"
      "         vitrine trace gpt2/ --ids 464,3139,286 --set 'blocks.0.attn.hook_z[:,2]=0' --out silenced.safetensors");
  command.callback([o] { run_trace(*o); });
}

}  // namespace vitrine::cli
