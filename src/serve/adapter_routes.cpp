// /v1/load_lora_adapter and /v1/unload_lora_adapter: adapters that come and go while the server runs, with vLLM's
// fields.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>

#include "base/nearest.h"
#include "checkpoint/adapters/modifier_text.h"
#include "serve/modifier_fields.h"
#include "serve/routes.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

bool is_inside(const fs::path& path, const fs::path& folder) {
  const auto [end, own] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && own != path.end();
}

/// A path of the folder of adapters, links followed, like those of the files of an adapter's own folder.
std::string path_inside(const std::string& adapter_folder, const std::string& path) {
  if (adapter_folder.empty()) {
    throw RequestError(kInvalid, "lora_path", "the server adds no adapters; start it with --adapter-dir FOLDER");
  }
  if (path.find('\0') != path.npos) throw RequestError(kInvalid, "lora_path", "expected a path, got a zero byte in it");
  std::error_code error;
  const fs::path folder = fs::canonical(adapter_folder, error);
  const fs::path own = fs::canonical(folder / path, error);  // an absolute path stays as it is
  if (error) throw RequestError(kInvalid, "lora_path", "there is no \"{}\" in the folder of adapters", path);
  std::vector<fs::path> files = {own};
  for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
    if (fs::path file = fs::canonical(own / name, error); !error) files.push_back(std::move(file));
  }
  for (const fs::path& file : files) {
    if (!is_inside(file, folder)) {
      throw RequestError(kInvalid, "lora_path", "expected a path inside the folder of adapters, got \"{}\"", path);
    }
  }
  return own.string();
}

struct LoadRequest {
  std::string id, name, path;  ///< `id` is MODEL:NAME.
  bool replaces = false;
};

/// The name of the model without an adapter.
std::string read_base(const ServedModel& model, RequestFields& fields) {
  const ChosenModel chosen = read_model(model, fields);
  if (chosen.adapter) throw RequestError(kInvalid, "model", "expected a model without an adapter, got {}", chosen.name);
  return chosen.name;
}

std::string read_name(RequestFields& fields) {
  const std::string name = fields.needed_text("lora_name");
  if (!is_modifier_name(name)) {
    throw RequestError(kInvalid, "lora_name", "expected 1 to 128 letters, digits and . _ -, got \"{}\"", name);
  }
  return name;
}

LoadRequest parse_load(const ServedModel& model, std::string_view body) {
  const Json json = parse_body(body);
  RequestFields fields(json, "", model.unknown_fields);
  LoadRequest request;
  request.name = read_name(fields);
  const std::string path = fields.needed_text("lora_path");
  request.id = read_base(model, fields) + ":" + request.name;
  request.replaces = fields.flag("load_inplace").value_or(false);
  fields.ignore({"base_model_name", "is_3d_lora_weight"});
  fields.finish();
  if (model.modifiers == nullptr) throw RequestError(kInvalid, "model", "the model takes no adapters");
  if (!request.replaces && model.modifiers->named.adapter(request.name)) {
    throw RequestError(kInvalid, "lora_name", "there is already an adapter \"{}\"", request.name);
  }
  request.path = path_inside(model.modifiers->adapter_folder, path);
  return request;
}

/// What a thread that loads an adapter reports.
struct Loading {
  std::atomic<bool> is_done = false;
  std::exception_ptr error{};  // before is_done
};

/// Loads an adapter while rounds and other responses go on.
class LoadReply : public PendingReply {
 public:
  LoadReply(ServedModifiers& modifiers, LoadRequest request, std::function<void()> notify)
      : modifiers_(modifiers), request_(std::move(request)), notify_(std::move(notify)) {}

  void submit(Scheduler&) override {
    modifiers_.loader.run([&to = modifiers_, request = request_, loading = loading_, notify = notify_] {
      try {
        ThreadPool pool(1);
        to.named.add(request.name, to.open(request.path, 1, pool), request.replaces);
      } catch (...) {
        loading->error = std::current_exception();
      }
      loading->is_done = true;
      notify();
    });
  }
  void cancel() override {}  // the adapter is loaded all the same
  JobTimes times() const override { return {}; }
  Usage usage() const override { return {}; }
  bool take() override {
    if (!loading_->is_done) return false;
    if (loading_->error) std::rethrow_exception(loading_->error);
    return is_taken_ = true;
  }
  bool has_ended() const override { return is_taken_; }
  HttpReply reply() override {
    return {200, json_text(Json{{"id", request_.id}, {"object", "model"}, {"status", "loaded"}})};
  }

 private:
  ServedModifiers& modifiers_;
  LoadRequest request_;
  std::function<void()> notify_;
  std::shared_ptr<Loading> loading_ = std::make_shared<Loading>();
  bool is_taken_ = false;
};

}  // namespace

namespace routes {

std::shared_ptr<PendingReply> load_adapter(const ServedModel& model, const RouteRequest& request) {
  LoadRequest parsed = parse_load(model, request.body);
  return std::make_shared<LoadReply>(*model.modifiers, std::move(parsed), request.notify);
}

Json unload_adapter(const ServedModel& model, const RouteRequest& request) {
  const Json json = parse_body(request.body);
  RequestFields fields(json, "", model.unknown_fields);
  const std::string name = read_name(fields), base = read_base(model, fields);
  fields.ignore({"lora_int_id"});
  fields.finish();
  if (model.modifiers == nullptr || !model.modifiers->named.remove_adapter(name)) {
    const auto known = model.modifiers != nullptr ? model.modifiers->named.adapter_names() : std::vector<std::string>{};
    throw RequestError(kUnknownModel, "lora_name", "there is no adapter \"{}\"{}", name, did_you_mean(name, known));
  }
  return {{"id", base + ":" + name}, {"object", "model"}, {"status", "unloaded"}};
}

}  // namespace routes

}  // namespace vitrine
