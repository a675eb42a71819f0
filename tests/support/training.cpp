#include "support/training.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "data/shards.h"

namespace vitrine::test {

void write_corpus(const std::string& folder, std::int64_t vocab_size, const std::vector<std::int32_t>& ids) {
  ShardWriter writer(folder, {vocab_size, 1, std::nullopt}, std::int64_t{1} << 20);
  writer.begin_document();
  writer.write(ids, static_cast<std::int64_t>(ids.size()));
  writer.finish();
}

void write_corpus(const std::string& folder, std::int64_t vocab_size, std::int64_t n_tokens,
                  std::uint64_t fingerprint) {
  ShardWriter writer(folder, {vocab_size, fingerprint, std::nullopt}, std::int64_t{1} << 20);
  std::vector<std::int32_t> ids;
  std::uint32_t state = 7;
  for (std::int64_t i = 0; i < n_tokens; ++i) {
    state = state * 1664525U + 1013904223U;
    const auto drawn = static_cast<std::int64_t>((state >> 16U) % 4U);  // one of the four possible successors
    const std::int64_t before = ids.empty() ? 0 : ids.back();
    ids.push_back(static_cast<std::int32_t>((before * 5 + 3 * drawn + 1) % vocab_size));
  }
  writer.begin_document();
  writer.write(ids, n_tokens);
  writer.finish();
}

std::string TinyRun::toml() const {
  std::string text = model;
  text += fmt::format("\n[data]\ntrain = \"{}\"\n{}", data, data_more);
  text += fmt::format("\n[train]\nsteps = {}\nbatch = {}\nmicro_batches = {}\nseq_len = {}\n{}", steps, batch,
                      micro_batches, seq_len, train);
  text += fmt::format("\n[schedule]\nlr = {}\n{}", lr, schedule);
  return text + fmt::format("\n[log]\n{}\n[out]\nfolder = \"{}\"\n{}", log, out, more);
}

TrainResult train_tiny(const TinyRun& tiny, bool resume, int threads, std::vector<std::string>* lines) {
  const TrainConfig config = parse_train_config(tiny.toml(), "test.toml");
  TrainRun run;
  run.threads = threads;
  run.resume = resume;
  run.build = "test";
  if (lines != nullptr) run.tell = [lines](const std::string& line) { lines->push_back(line); };
  return train(config, run);
}

std::vector<Json> metrics_of(const std::string& folder) {
  std::ifstream in(folder + "/metrics.jsonl");
  EXPECT_TRUE(in) << folder;
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) {
    Json json = Json::parse(line);
    json.erase("time");
    json.erase("tokens_per_s");
    lines.push_back(json);
  }
  return lines;
}

std::vector<double> losses_of(const std::string& folder) {
  std::vector<double> losses;
  for (const Json& line : metrics_of(folder)) {
    if (line.contains("loss")) losses.push_back(line["loss"].is_null() ? NAN : line["loss"].get<double>());
  }
  return losses;
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace vitrine::test
