#include "serve/trace_request.h"

#include "serve/prompts.h"
#include "serve/routes.h"
#include "serve/site_fields.h"

namespace vitrine {
namespace {

class TraceReply : public JobReply {
 public:
  TraceReply(TraceRequest request, const RouteRequest& from)
      : JobReply(std::make_shared<Job>(from.client, std::vector{request.sequence()}, false, from.notify)),
        request_(std::move(request)) {}

  Usage usage() const override { return {std::ssize(request_.ids), 0, 0}; }
  HttpReply reply() override { return {200, request_.file(), "application/octet-stream"}; }

 private:
  TraceRequest request_;
};

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> trace(const ServedModel& model, const RouteRequest& request) {
  return std::make_shared<TraceReply>(parse_trace(model, request.body), request);
}

}  // namespace routes

GenerateRequest TraceRequest::sequence() const {
  GenerateRequest request;
  request.prompt = ids;
  request.max_tokens = 0;
  request.taps = recorder;
  return request;
}

std::string TraceRequest::file() const {
  std::string file;
  const std::int64_t header_bytes = trace_header_bytes(recorder->max_sites());
  file.reserve(static_cast<std::size_t>(header_bytes + recorder->bytes()) + 64);
  MemorySink sink(file);
  SafetensorsWriter writer(sink, "trace", header_bytes);
  for (const SequenceRecorder::Recorded& value : recorder->recorded()) {
    writer.begin(value.name, DType::f32, {value.shape.sizes().begin(), value.shape.sizes().end()});
    writer.append(std::as_bytes(std::span(value.values)));
  }
  writer.commit();
  return file;
}

TraceRequest parse_trace(const ServedModel& model, std::string_view body) {
  const Json json = parse_body(body);
  RequestFields fields(json);
  read_model_name(model, fields);
  require_generation(model);
  SiteFields sites = read_sites(model, fields);
  const bool adds_special = fields.flag("add_special_tokens").value_or(true);
  fields.find("prompt");
  fields.finish();
  auto prompts = read_prompts(model, fields, "prompt", adds_special ? SpecialTokens::apply : SpecialTokens::written);
  if (prompts.size() != 1) throw RequestError(kInvalid, "prompt", "expected one text, got {}", prompts.size());
  TraceRequest request;
  request.ids = std::move(prompts.front().ids);
  request.recorder = with_site_errors(fields, [&] {
    return std::make_shared<TextRecorder>(*model.model, std::move(sites.globs), std::move(sites.writes),
                                          std::ssize(request.ids));
  });
  check_trace_bytes(model, request.recorder->bytes(), "sites");
  return request;
}

}  // namespace vitrine
