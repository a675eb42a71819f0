#include "checkpoint/init.h"

#include <filesystem>

#include "base/error.h"
#include "base/file_writer.h"
#include "checkpoint/hugging_face/config_json.h"
#include "checkpoint/hugging_face/writer.h"
#include "model/count.h"
#include "model/initialize.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

/// A new folder, which is removed unless it is kept.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path) : path_(path) {
    if (path.empty()) throw BadInput("OUT", "expected the path of a new folder, got an empty text");
    std::error_code error;
    if (fs::exists(path, error)) {
      const bool is_empty = fs::is_directory(path, error) && fs::is_empty(path, error);
      if (error || !is_empty)
        throw BadInput(path, "expected a new or an empty folder, got an existing file or a folder with files");
      return;
    }
    made_ = fs::create_directories(path, error);
    if (error) throw BadInput(path, "cannot create the folder: {}", error.message());
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code error;
    if (!kept_) fs::remove(path_ / "model.safetensors", error);
    if (!kept_ && made_) fs::remove(path_, error);
  }

  std::string file(const char* name) const { return (path_ / name).string(); }
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  bool made_ = false;
  bool kept_ = false;
};

}  // namespace

std::int64_t init_checkpoint(const Json& config, const std::string& where, const std::string& folder, DType dtype,
                             std::uint64_t seed, ThreadPool& pool, const ReportProgress& report) {
  const Family family = family_of(config, where);
  const ModelConfig model = read_model_config(family, config, where);
  const NormsByName norms = norms_of(model);
  std::vector<InitRule> rules;
  std::vector<std::int64_t> cols;
  for_each_shape(model, [&](const std::string& name, const Shape& shape) {
    rules.push_back(init_rule(model, norms, name, shape));
    cols.push_back(shape[shape.rank() - 1]);
  });

  NewFolder target(folder);
  const std::int64_t n_params = count_params(model);
  check_disk_space(target.file("model.safetensors"), n_params * size_of(dtype));
  const ParamValues values = [&](std::size_t param, std::int64_t row, std::int64_t first_col, std::span<float> out) {
    draw_initial(rules[param], seed, param, row * cols[param] + first_col, out);
  };
  write_hugging_face_tensors(target.file("model.safetensors"), family, model, dtype, values, pool, report);

  write_config_json(target.file("config.json"), family, config, dtype);  // last: a folder with it is complete
  target.keep();
  return n_params;
}

}  // namespace vitrine
