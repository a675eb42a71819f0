// Folders of sentence-transformers: vectors, weights of words, vectors of tokens and scores equal those of
// sentence-transformers in float64 (tools/goldens sentences), with the same bits in any batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/json.h"
#include "base/temp_folder.h"
#include "support/data.h"
#include "support/run.h"
#include "support/sentence_folder.h"

namespace vitrine::test {
namespace {

constexpr double kTolerance = 2e-6;  // relative to the largest element, or to 1

constexpr std::pair<const char*, TextRole> kRoles[] = {
    {"any", TextRole::any}, {"query", TextRole::query}, {"document", TextRole::document}};

class SentenceGolden : public testing::TestWithParam<std::string> {
 protected:
  const std::string path_ = goldens() + "/sentences/" + GetParam();
  const Json golden_ = parse_json(read_file(path_ + "/golden.json"), path_);
  const SentenceFolder folder_{path_};
};

void expect_near(std::span<const float> ours, const Json& expected, const std::string& what) {
  const auto values = expected.get<std::vector<double>>();
  ASSERT_EQ(ours.size(), values.size()) << what;
  double most = 1;
  for (const double x : values) most = std::max(most, std::abs(x));
  for (std::size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], values[i], kTolerance * most) << what << ", " << i;
}

TEST_P(SentenceGolden, ValuesEqualTheReference) {
  for (const auto& [name, role] : kRoles) {
    const SentenceConfig config = folder_.config(role);
    const std::vector<TextVectors> own = folder_.vectors(config, folder_.prepare(config, golden_["texts"]).all());
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::string what = std::string(name) + " of text " + std::to_string(i);
      const Json& expected = golden_[name][i];
      if (!expected[0].is_array()) {
        expect_near(own[i].row(0), expected, what);
        continue;
      }
      ASSERT_EQ(own[i].n, std::ssize(expected)) << what;
      for (std::int64_t t = 0; t < own[i].n; ++t) {
        expect_near(own[i].row(t), expected[static_cast<std::size_t>(t)], what + ", row " + std::to_string(t));
      }
    }
    if (role != TextRole::any) continue;
    for (std::size_t i = 0; i < own.size(); ++i) {
      for (std::size_t j = 0; j < own.size(); ++j) {
        const double expected = golden_["similarity"][i][j].get<double>();
        EXPECT_NEAR(similarity_of(config.similarity, own[i], own[j]), expected, 1e-5 * (1 + std::abs(expected)));
      }
    }
  }
}

class SentenceScores : public SentenceGolden {};

TEST_P(SentenceScores, EqualTheReference) {
  expect_near(folder_.scores(golden_["texts"]), golden_["scores"], "scores");
}

TEST_P(SentenceGolden, ATextHasTheSameBitsInAnyBatchAndOnEveryInstructionSet) {
  for (const TextRole role : {TextRole::query, TextRole::document}) {
    const SentenceConfig config = folder_.config(role);
    const PreparedTexts prepared = folder_.prepare(config, golden_["texts"]);
    std::vector<std::vector<float>> alone;
    for (std::size_t i = 0; i < prepared.ids.size(); ++i) {
      alone.push_back(folder_.vectors(config, prepared.one(i)).front().values);
    }
    PreparedTexts reversed = prepared;
    std::reverse(reversed.ids.begin(), reversed.ids.end());
    std::reverse(reversed.marks.begin(), reversed.marks.end());
    for (const Isa isa : available_isas()) {
      for (const int threads : {1, 3}) {
        const auto batch = folder_.vectors(config, prepared.all(), threads, kernels_for(isa));
        const auto other = folder_.vectors(config, reversed.all(), threads, kernels_for(isa));
        for (std::size_t i = 0; i < alone.size(); ++i) {
          EXPECT_TRUE(same_bits(batch[i].values, alone[i])) << name_of(isa) << ", text " << i;
          EXPECT_TRUE(same_bits(other[alone.size() - 1 - i].values, alone[i])) << name_of(isa) << ", text " << i;
        }
      }
    }
  }
}

/// The names of goldens whose values are scores of pairs, or the others.
std::vector<std::string> sentence_cases(bool has_scores) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(goldens() + "/sentences")) {
    const std::string golden = entry.path() / "golden.json";
    if (parse_json(read_file(golden), golden).contains("scores") == has_scores)
      names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Folders, SentenceGolden, testing::ValuesIn(sentence_cases(false)),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Folders, SentenceScores, testing::ValuesIn(sentence_cases(true)),
                         [](const auto& test) { return test.param; });

/// One thing changed in a copy of a golden (tools/goldens changed_sentences).
class ChangedFolder {
 public:
  explicit ChangedFolder(const Json& change) : change_(change), path_(temp_ / "m") {
    std::filesystem::copy(goldens() + "/sentences/" + change["folder"].get<std::string>(), path_,
                          std::filesystem::copy_options::recursive);
    const std::string file = path_ + "/" + change["file"].get<std::string>();
    if (change.contains("patch")) {
      write_file(file, parse_json(read_file(file), file).patch(change["patch"]).dump());
    } else {
      write_file(file, with_tensor(read_file(file)));
    }
  }

  /// For each text and role the sum of all elements, each times a cosine of its number.
  Json digests(const Json& texts, const Json& like) const {
    const SentenceFolder folder(path_);
    Json digests = Json::object();
    const bool has_scores = folder.config().result() == TextValue::scores;
    if (!like.is_null() && like.contains("scores") != has_scores) {
      throw Unsupported("modules.json",
                        "encode reads no folder that makes scores, rerank no other");  // as the commands
    }
    if (has_scores) {
      for (const float score : folder.scores(texts)) digests["scores"].push_back(score);
      return digests;
    }
    for (const auto& [name, role] : kRoles) {
      const SentenceConfig config = folder.config(role);
      for (const TextVectors& own : folder.vectors(config, folder.prepare(config, texts).all())) {
        double sum = 0;
        for (std::size_t i = 0; i < own.values.size(); ++i) {
          sum += static_cast<double>(own.values[i]) * std::cos(static_cast<double>(i));
        }
        digests[name].push_back(sum);
      }
    }
    return digests;
  }

 private:
  std::string with_tensor(const std::string& data) const {
    std::uint64_t size = 0;
    std::memcpy(&size, data.data(), sizeof size);
    Json header = Json::parse(data.substr(8, size));
    std::string body = data.substr(8 + size);
    const auto name = change_["tensor"].get<std::string>(), how = change_["change"].get<std::string>();
    Json& tensor = header[name];
    const std::string type = tensor["dtype"];
    if (how == "scaled") {
      const auto begin = tensor["data_offsets"][0].get<std::size_t>(),
                 end = tensor["data_offsets"][1].get<std::size_t>();
      const auto scale = [&](auto example, double factor) {
        for (std::size_t at = begin; at < end; at += sizeof example) {
          std::memcpy(&example, body.data() + at, sizeof example);
          example = static_cast<decltype(example)>(static_cast<double>(example) * factor);
          std::memcpy(body.data() + at, &example, sizeof example);
        }
      };
      type == "F32" ? scale(0.0f, 1.5) : type == "F64" ? scale(0.0, 1.5) : scale(std::int64_t{0}, 0.0);
    } else if (how == "renamed") {
      const Json moved = tensor;
      header.erase(name);
      header["other"] = moved;
    } else {
      tensor["shape"][0] = tensor["shape"][0].get<std::int64_t>() * 2;
      tensor["dtype"] = type == "F32" ? "BF16" : type == "F64" ? "F32" : "I32";
    }
    const std::string text = header.dump();
    size = text.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &size, sizeof size);
    return bytes + text + body;
  }

  Json change_;
  TempFolder temp_;
  std::string path_;
};

/// Whether an error names a file of the folder, or what was changed.
bool names(const std::string& error, const Json& change) {
  std::vector<std::string> words = {".json", ".safetensors", "modules.", "LogitScore", "pairs"};
  if (change.contains("patch")) {
    const std::string path = change["patch"][0]["path"];
    words.push_back(path.substr(path.rfind('/') + 1));
  }
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return error.find(word) != error.npos; });
}

TEST(SentenceChanges, HaveTheValuesOfTheReferenceOrAreRefusedByName) {
  const std::string path = goldens() + "/sentence_changes.json";
  const Json changes = parse_json(read_file(path), path);
  int n_equal = 0, n_stricter = 0;
  for (const Json& change : changes) {
    Json what = change;
    what.erase("values");
    SCOPED_TRACE(what.dump());
    const Json& expected = change["values"];
    const std::string golden = goldens() + "/sentences/" + change["folder"].get<std::string>() + "/golden.json";
    Json own;
    try {
      own = ChangedFolder(change).digests(parse_json(read_file(golden), golden)["texts"], expected);
    } catch (const Error& e) {
      EXPECT_TRUE(names(e.what(), change)) << e.what();
      if (!expected.is_null()) ++n_stricter;
      continue;
    }
    EXPECT_FALSE(expected.is_null()) << "the reference refuses it";
    for (const auto& [role, values] : expected.items()) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double value = values[i].get<double>();
        EXPECT_NEAR(own[role][i].get<double>(), value, 2e-5 * (1 + std::abs(value))) << role << ", text " << i;
      }
    }
    ++n_equal;
  }
  EXPECT_GT(n_equal, 2 * n_stricter) << "most of what the reference accepts has its values";
}

}  // namespace
}  // namespace vitrine::test
