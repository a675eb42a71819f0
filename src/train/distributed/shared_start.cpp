#include "train/distributed/shared_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "checkpoint/hugging_face/config_json.h"
#include "model/count.h"
#include "train/distributed/divided_state.h"

namespace vitrine {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Throws on all ranks if one has another number than rank 0.
void check_same(Ranks& ranks, std::uint64_t own, const std::string& where, const char* what) {
  const std::vector<std::uint64_t> all = ranks.gather_values<std::uint64_t>({&own, 1});
  const auto other = std::find_if(all.begin(), all.end(), [&](std::uint64_t number) { return number != all[0]; });
  if (other == all.end()) return;
  ranks.together([&] {
    throw BadInput(where, "{} has another {} than rank 0", ranks.name(static_cast<int>(other - all.begin())), what);
  });
}

/// The names and shapes of a model's parameters.
std::string shapes_of(const ModelConfig& config) {
  std::string text;
  for_each_shape(config, [&](const std::string& name, const Shape& shape) {
    text += fmt::format("{} {}\n", name, to_string(shape));
  });
  return text;
}

constexpr std::size_t kPage = 4096, kStride = std::size_t{1} << 20;
constexpr std::size_t kWhole = std::size_t{256} << 20;  // the size up to which all bytes of a file are compared

std::string fingerprint_of(const std::string& path) {
  const auto file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  Fingerprint f;
  if (bytes.size() <= kWhole) {
    f.add(bytes);
  } else {
    const std::uint64_t size = bytes.size();
    f.add(std::as_bytes(std::span(&size, 1)));
    for (std::size_t at = 0; at < bytes.size(); at += kStride) {
      f.add(bytes.subspan(at, std::min(kPage, bytes.size() - at)));
    }
  }
  return fmt::format("{:016x}", f.value());
}

/// The files of the data, each with its fingerprint.
std::vector<std::string> files_of(const TrainConfig& c) {
  std::vector<std::string> files, lines;
  for (const std::string& path : {c.data.train, c.data.conversations, c.data.pairs, c.data.texts, c.data.validation}) {
    if (path.empty()) continue;
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  for (const std::string& path : files) lines.push_back(path + " " + fingerprint_of(path));
  return lines;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) lines.emplace_back(line);
  return lines;
}

}  // namespace

void check_same_run(Ranks& ranks, const TrainConfig& c, const std::string& config_file, const std::string& build) {
  if (ranks.is_alone()) return;
  Fingerprint program, config;
  program.add(bytes_of(build));
  check_same(ranks, program.value(), "vitrine", "version of the program");
  if (!config_file.empty()) ranks.together([&] { config.add(MappedFile::open(config_file)->bytes()); });
  config.add(bytes_of(fmt::format("{} {}", c.train.seed, c.model.config.dump())));
  check_same(ranks, config.value(), config_file, "content");
  ranks.together([&] {
    if (c.train.micro_batches >= ranks.size()) return;
    throw BadInput("train.micro_batches", "expected at least as many as ranks ({}), got {}", ranks.size(),
                   c.train.micro_batches);
  });
}

void check_same_data(Ranks& ranks, const TrainConfig& c) {
  if (ranks.is_alone()) return;
  std::vector<std::string> own;  // each file and its number
  ranks.together([&] { own = files_of(c); });
  const std::vector<std::string> first = lines_of(ranks.broadcast(fmt::format("{}", fmt::join(own, "\n"))));
  ranks.together([&] {
    const auto [mine, theirs] = std::mismatch(own.begin(), own.end(), first.begin(), first.end());
    if (mine == own.end() && theirs == first.end()) return;
    const std::string& line = mine != own.end() ? *mine : *theirs;
    throw BadInput(line.substr(0, line.rfind(' ')), "expected the file that rank 0 has, got another");
  });
}

Start shared_start(Ranks& ranks, Shard shard, const TrainConfig& c, const std::string& checkpoint, ThreadPool& pool,
                   const Kernels& k) {
  // An adapter's base is mapped by every rank; a new model is drawn by every rank, with the same bits.
  const bool is_local = ranks.is_first() || c.lora || checkpoint.empty();
  std::optional<Start> start;
  KeptParts kept(ranks, shard);
  const Filled filled = [&](const Trainable& trainable, std::size_t n) { kept.filled(trainable, n); };
  ranks.together([&] {
    if (is_local) start.emplace(start_from(c, ranks.is_first() ? checkpoint : "", pool, k, filled));
  });
  if (ranks.is_alone() || checkpoint.empty() || c.lora) return std::move(*start);
  const bool first = ranks.is_first();
  const std::string config = ranks.broadcast(first ? start->files.config.dump() : "");
  const std::string shapes = ranks.broadcast(first ? shapes_of(start->trainable.model().config()) : "");
  ranks.together([&] {
    if (first) return;
    const ModelSource source{Json::parse(config), "config.json", "", {}};
    const ModelConfig model = source.read();
    if (shapes_of(model) != shapes) {
      throw Unsupported(checkpoint, "its tensors decide a part of the model: it trains on one rank only");
    }
    TextSteps steps;
    if (makes_vectors(c)) steps = steps_of_vectors(c.model.checkpoint);
    start.emplace(Start{Trainable(model, c.train.dtype, std::move(steps)),
                        {family_of(source.config, source.where), source.config, c.data.tokenizer}});
  });
  return std::move(*start);
}

}  // namespace vitrine
