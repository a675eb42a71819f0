// vitrine features index and show: the files of a corpus, and what goes on after an interruption.
#include <algorithm>
#include <cmath>
#include <random>

#include "cli/http_client.h"
#include "cli/look_page.h"

namespace vitrine::test {
namespace {

constexpr int kWindow = 16;

class FeaturesIndex : public testing::Test {
 protected:
  FeaturesIndex() { write_file(corpus_, text(9)); }

  /// Sentences in an order of their own.
  static std::string text(unsigned seed, int n = 60) {
    const char* const sentences[] = {"Once upon a time, there was a little girl named Lily.",
                                     "She loved to play in the park with her dog.",
                                     "Tom saw a big red ball in the box.",
                                     "\"Can I have it?\" asked the bird.",
                                     "Her mom said no, and they went home.",
                                     "One day the sun was very hot, so they sat under a tree."};
    std::mt19937 random(seed);
    std::string all;
    for (int i = 0; i < n; ++i) all += std::string(all.empty() ? "" : " ") + sentences[random() % 6];
    return all;
  }
  static std::string model(const std::string& name = "") { return source_dir() + "/models/default" + name; }
  Arguments index(const std::string& out, const Arguments& more = {}) const {
    Arguments all = {"features",    "index", model(),       corpus_,    "--sae",
                     model("/sae"), "--out", folder_ / out, "--window", std::to_string(kWindow),
                     "--contexts",  "4"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string file(const std::string& out) const { return folder_ / (out + "/blocks.3.hook_resid_post.safetensors"); }
  static Json show(const std::string& path, int feature, const Arguments& more = {}) {
    Arguments all = {"features", "show", path, std::to_string(feature), "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return Json::parse(output_of(all));
  }

  TempFolder folder_;
  std::string corpus_ = folder_ / "corpus.txt";
};

/// The windows of the corpus, one by one through `features`.
TEST_F(FeaturesIndex, EqualsWhatFeaturesSaysOfEachWindow) {
  output_of(index("index", {"--json"}));
  const std::string ids_text = output_of({"tokenize", model(), read_file(corpus_), "--no-special", "--json"});
  const auto ids = Json::parse(ids_text)["ids"].get<std::vector<std::int32_t>>();
  struct Found {
    double max;
    std::size_t start;
    std::vector<std::int32_t> ids;
    std::vector<double> values;
  };
  std::map<int, std::vector<Found>> contexts;
  std::map<int, int> n_active;
  std::size_t n_tokens = 0;
  for (std::size_t start = 0; start < ids.size(); start += kWindow - 1) {
    std::vector<std::int32_t> window = {0};  // BOS
    for (std::size_t i = start; i < std::min(ids.size(), start + kWindow - 1); ++i) window.push_back(ids[i]);
    const Json reply = Json::parse(
        output_of({"features", model(), "--ids", joined(window), "--sae", model("/sae"), "--top", "2048", "--json"}));
    const Json& tokens = reply["saes"][0]["tokens"];
    std::map<int, std::vector<double>> values;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      for (const Json& feature : tokens[t]) {
        auto& own = values[feature["index"].get<int>()];
        own.resize(window.size());
        own[t] = feature["value"].get<double>();
        ++n_active[feature["index"].get<int>()];
      }
    }
    n_tokens += window.size();
    for (auto& [feature, own] : values) {
      contexts[feature].push_back({*std::ranges::max_element(own), start, window, own});
    }
  }
  ASSERT_GT(contexts.size(), 50U);
  int n_compared = 0;
  for (auto& [feature, own] : contexts) {
    if (++n_compared > 25) break;
    std::ranges::stable_sort(own, std::greater<>(), &Found::max);
    own.resize(std::min<std::size_t>(4, own.size()));
    const Json shown = show(folder_ / "index", feature);
    ASSERT_EQ(shown["contexts"].size(), own.size()) << feature;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Json& context = shown["contexts"][i];
      EXPECT_EQ(context["max"], own[i].max);
      EXPECT_EQ(context["start"], own[i].start);
      EXPECT_EQ(context["ids"], Json(own[i].ids));
      EXPECT_EQ(context["values"].get<std::vector<double>>(), own[i].values);
      EXPECT_EQ(context["values"][context["position"].get<std::size_t>()], own[i].max);
    }
    EXPECT_DOUBLE_EQ(shown["density"].get<double>(),
                     static_cast<double>(n_active[feature]) / static_cast<double>(n_tokens));
    EXPECT_EQ(shown["top_logits"].size(), 10U);
  }
  const std::string table = output_of({"features", "show", folder_ / "index", std::to_string(contexts.begin()->first)});
  EXPECT_THAT(table, testing::HasSubstr("raises"));
  EXPECT_THAT(table, testing::HasSubstr("»"));
}

TEST_F(FeaturesIndex, HasTheSameBytesOnOneAndThreeThreadsAndAfterAnInterruption) {
  output_of(index("one", {"--threads", "1"}));
  output_of(index("three", {"--threads", "3"}));
  const std::string bytes = read_file(file("one"));
  EXPECT_EQ(read_file(file("three")), bytes);
  write_file(corpus_, text(9, 600));
  output_of(index("long"));
  for (const int number : {SIGINT, SIGKILL}) {
    const std::string out = "stopped" + std::to_string(number);
    Program program(index(out, {"--save-every", "7"}));
    program.wait_until([&] { return std::filesystem::exists(folder_ / (out + "/unfinished/progress.safetensors")); });
    program.send(number);
    const Outcome stopped = program.finish();
    if (number == SIGINT) {
      EXPECT_EQ(stopped.status, 130);
      EXPECT_THAT(stopped.err, testing::HasSubstr("the same command goes on"));
    }
    EXPECT_FALSE(std::filesystem::exists(file(out)));
    output_of(index(out));
    EXPECT_EQ(read_file(file(out)), read_file(file("long"))) << number;
    output_of(index(out));  // it is complete
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / out), {}), 1);
  }
}

TEST_F(FeaturesIndex, ReadsTokensOfDataPackAndWindowsEndWithDocuments) {
  write_file(folder_ / "texts.jsonl", Json({{"text", text(1, 2)}}).dump() + "\n" + Json({{"text", text(2, 3)}}).dump());
  output_of(
      {"data", "pack", folder_ / "texts.jsonl", "--tokenizer", model("/tokenizer.json"), "--out", folder_ / "packed"});
  Arguments arguments = index("packed-index");
  arguments[3] = folder_ / "packed";
  output_of(arguments);
  arguments = index("lines-index");
  arguments[3] = folder_ / "texts.jsonl";
  output_of(arguments);
  int n = 0;
  for (int feature = 0; feature < 2048 && n < 10; feature += 20) {
    const Json packed = show(folder_ / "packed-index", feature), lines = show(folder_ / "lines-index", feature);
    ASSERT_EQ(packed["contexts"].size(), lines["contexts"].size());
    for (std::size_t i = 0; i < packed["contexts"].size(); ++i, ++n) {
      EXPECT_EQ(packed["contexts"][i]["ids"], lines["contexts"][i]["ids"]);
      EXPECT_EQ(packed["contexts"][i]["values"], lines["contexts"][i]["values"]);
      EXPECT_EQ(packed["contexts"][i]["ids"][0], 0) << "each begins with one BOS";
      EXPECT_NE(packed["contexts"][i]["ids"][1], 0);
    }
    EXPECT_EQ(packed["density"], lines["density"]);
  }
  EXPECT_GT(n, 0);
}

TEST_F(FeaturesIndex, OfSeveralDictionariesHasAFileForEach) {
  Arguments arguments = index("several");
  arguments[5] = model("/transcoders");
  const std::string out = output_of(arguments);
  EXPECT_EQ(std::ranges::count(out, '\n'), 6);
  EXPECT_TRUE(show(folder_ / "several", 3, {"--site", "blocks.4.hook_mlp_out"}).contains("density"));
  expect_error({"features", "show", folder_ / "several", "3"},
               {"--site", "blocks.0.hook_mlp_out, blocks.1.hook_mlp_out"});
  expect_error({"features", "show", folder_ / "several", "3", "--site", "x"}, {"--site", "got x"});
}

TEST_F(FeaturesIndex, IsServed) {
  output_of(index("index"));
  TestServer server({model(), "--features-index", folder_ / "index"});
  const auto reply = [&](const Json& body) { return server.post("/v1/features", body); };
  EXPECT_EQ(reply({{"feature", 77}}).json(), show(folder_ / "index", 77));
  EXPECT_EQ(reply({{"feature", 2}, {"site", "blocks.3.hook_resid_post"}}).json(), show(folder_ / "index", 2));
  for (const Json& wrong :
       {Json({{"feature", 2048}}), Json({{"feature", -1}}), Json({{"feature", "x"}}), Json::object(),
        Json({{"feature", 1}, {"site", "x"}}), Json({{"feature", 1}, {"futures", 2}})}) {
    EXPECT_EQ(reply(wrong).status, 400) << wrong;
  }
  server.stop();
  TestServer without({model()});
  EXPECT_EQ(without.post("/v1/features", {{"feature", 77}}).status, 400);
  without.stop();
}

TEST_F(FeaturesIndex, IsOnThePage) {
  output_of(index("index"));
  const Arguments arguments = {"Once upon a time", "--sae", model("/sae"), "--features-index", folder_ / "index"};
  const WrittenPage page = look(arguments);
  const std::string name = "features.0.dashboards.";
  const auto features = values_of<std::int32_t>(page, name + "feature");
  ASSERT_GT(features.size(), 5U);
  EXPECT_TRUE(std::ranges::is_sorted(features));
  const auto shown = values_of<std::int32_t>(page, "features.0.index");
  EXPECT_EQ(std::set(features.begin(), features.end()), [&] {
    std::set all(shown.begin(), shown.end());
    all.erase(-1);
    return all;
  }());
  const auto densities = values_of<double>(page, name + "density");
  const auto maxima = values_of<float>(page, name + "context.max"),
             values = values_of<float>(page, name + "context.value");
  const auto counts = values_of<std::int32_t>(page, name + "histogram"),
             ids = values_of<std::int32_t>(page, name + "context.id");
  for (std::size_t f = 0; f < features.size(); ++f) {
    const Json own = show(folder_ / "index", features[f]);
    EXPECT_EQ(densities[f], own["density"]);
    EXPECT_EQ(std::vector(counts.begin() + static_cast<std::ptrdiff_t>(32 * f),
                          counts.begin() + static_cast<std::ptrdiff_t>(32 * f + 32)),
              own["histogram"]["counts"].get<std::vector<std::int32_t>>());
    for (std::size_t c = 0; c < 8; ++c) {
      const bool has_context = c < own["contexts"].size();
      EXPECT_EQ(std::isnan(maxima[8 * f + c]), !has_context);
      if (!has_context) continue;
      const Json& context = own["contexts"][c];
      EXPECT_EQ(maxima[8 * f + c], context["max"]);
      for (std::size_t t = 0; t < 24; ++t) {  // a window is shorter
        const std::size_t i = 24 * (8 * f + c) + t;
        EXPECT_EQ(ids[i], t < context["ids"].size() ? context["ids"][t].get<int>() : -1);
        if (t < context["ids"].size()) {
          EXPECT_EQ(values[i], context["values"][t]);
        }
      }
    }
  }
  const std::string out = folder_ / "page.html";
  expect_usage_error({"look", "Once", "--features-index", folder_ / "index", "--out", out}, {"--sae"});
  expect_error({"look", "Once", "--sae", model("/transcoders"), "--features-index", folder_ / "index", "--out", out},
               {"--features-index", "blocks.0.hook_mlp_out", "blocks.3.hook_resid_post"});
}

TEST_F(FeaturesIndex, RefusesWhatItCannotUse) {
  output_of(index("index"));
  expect_error(index("index", {"--window", "8"}), {"other settings"});
  expect_error(index("other", {"--window", "513"}), {"--window", "512"});
  expect_error(index("other", {"--window", "512", "--contexts", "10000"}), {"--contexts"});
  expect_usage_error(index("other", {"--contexts", "0"}), {"--contexts"});
  expect_error({"features", "show", folder_ / "index", "2048"}, {"2047", "2048"});
  expect_usage_error({"features", "show", folder_ / "index", "x"}, {"N"});
  expect_error({"features", "show", folder_ / "nothing", "1"}, {"nothing"});
  expect_error({"features", "show", model("/sae/sae_weights.safetensors"), "1"}, {"vitrine features index"});
  expect_usage_error({"features", "--json", "show", folder_ / "index", "1"}, {"--json", "after the command show"});
  expect_usage_error({"features", "index", corpus_, "--out", folder_ / "other"}, {"--sae"});
  expect_usage_error({"features", "index", "--sae", model("/sae"), "--out", folder_ / "other"}, {"CORPUS"});
  Arguments arguments = index("other");
  arguments[3] = folder_ / "none.txt";
  expect_error(arguments, {"none.txt"});
  const std::string bytes = read_file(file("index"));
  write_file(file("index"), bytes.substr(0, bytes.size() / 2));
  expect_error({"features", "show", folder_ / "index", "1"}, {"blocks.3.hook_resid_post.safetensors"});
}

}  // namespace
}  // namespace vitrine::test
