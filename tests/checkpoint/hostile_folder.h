// A copy of a golden whose config and safetensors header a test can damage.
#pragma once

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "checkpoint/load.h"
#include "checkpoint/safetensors.h"
#include "support/data.h"
#include "support/run.h"

namespace vitrine::test {

class HostileFolder {
 public:
  explicit HostileFolder(const std::string& golden) {
    for (const auto& entry : std::filesystem::directory_iterator(goldens() + "/" + golden)) {
      const std::string name = entry.path().filename().string();
      if (name != "golden.safetensors" && name != "gradients.safetensors" && name != "differences.json")
        write_file(folder_ / name, read_file(entry.path().string()));
    }
  }

  const std::string& path() const { return folder_.path(); }
  std::string operator/(std::string_view name) const { return folder_ / name; }
  std::string read(std::string_view name = "model.safetensors") const { return read_file(folder_ / name); }
  void write(std::string_view bytes, std::string_view name = "model.safetensors") const {
    write_file(folder_ / name, bytes);
  }

  Json json(std::string_view name = "config.json") const { return Json::parse(read(name)); }
  void edit_json(const std::function<void(Json&)>& edit, std::string_view name = "config.json") const {
    Json object = json(name);
    edit(object);
    write(object.dump(), name);
  }

  /// Changes the header of a safetensors file but not its data.
  void edit_header(const std::function<void(Json&)>& edit, std::string_view name = "model.safetensors") const {
    Json header = Json::parse(header_text(name));
    edit(header);
    set_header(header.dump(), name);
  }
  std::string header_text(std::string_view name = "model.safetensors") const {
    const std::string bytes = read(name);
    return bytes.substr(8, length_of(bytes));
  }
  void set_header(const std::string& header, std::string_view name = "model.safetensors") const {
    const std::string bytes = read(name);
    write(length_text(header.size()) + header + bytes.substr(8 + length_of(bytes)), name);
  }
  /// Overwrites bytes of a tensor's data, `offset` bytes into it.
  void poke(const std::string& tensor, std::size_t offset, std::string_view with) const {
    std::string bytes = read();
    const auto begin = Json::parse(header_text())[tensor]["data_offsets"][0].get<std::size_t>();
    bytes.replace(8 + length_of(bytes) + begin + offset, with.size(), with);
    write(bytes);
  }

  static std::string length_text(std::uint64_t length) {
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    return text;
  }

 private:
  static std::size_t length_of(const std::string& bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    return length;
  }

  TempFolder folder_;
};

/// Writes model.safetensors again, with tensors that `edit` changes.
inline void edit_tensors(const HostileFolder& folder,
                         const std::function<void(std::map<std::string, StoredTensor>&)>& edit) {
  const SafetensorsFile file = SafetensorsFile::open(folder / "model.safetensors");
  std::map<std::string, StoredTensor> tensors = file.tensors();
  edit(tensors);
  std::string data;
  Json header = Json::object();
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  const std::string text = header.dump();
  folder.write(HostileFolder::length_text(text.size()) + text + data);
}

/// The message that refuses a checkpoint, or empty if it loads.
inline std::string load_refusal(const std::string& path, const LoadOptions& options = {}) {
  return message_of<Error>([&] { load_checkpoint(path, options); });
}

/// Loads a checkpoint and runs three ids. Returns the message that refuses either, or nothing.
inline std::string refusal(const std::string& path, const LoadOptions& options = {}) {
  return message_of<Error>([&] {
    const Checkpoint checkpoint = load_checkpoint(path, options);
    const std::int32_t last = static_cast<std::int32_t>(checkpoint.model->config().vocab_size - 1);
    const std::int32_t ids[] = {0, last, last / 2};
    for (const float logit : logits_of(*checkpoint.model, ids)) {
      ASSERT_TRUE(std::isfinite(logit)) << "a logit that is not finite";
    }
  });
}

inline void expect_all_in(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) EXPECT_THAT(message, testing::HasSubstr(std::string(part)));
}

/// The number of MB by which `body` raises the peak memory of the process.
inline double peak_growth_mb(const std::function<void()>& body) {
  const auto kilobytes = [](const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(key)) return std::stod(line.substr(key.size()));
    }
    throw std::runtime_error("no " + key);
  };
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
  const double before = kilobytes("VmRSS:");
  body();
  return (kilobytes("VmHWM:") - before) / 1024;
}

}  // namespace vitrine::test
