// The table of options, and the requests that are made of them.
#include "generate/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "generate/make_request.h"
#include "generate/read_option.h"

namespace vitrine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

const OptionRow& row_of(const std::string& name) {
  for (const OptionRow& row : option_rows()) {
    if (row.name == name) return row;
  }
  throw BadInput("name", "no option {}", name);
}

TEST(Options, RowsAreDistinctAndDefaultsAreInTheirRanges) {
  std::set<std::string> names, fields;
  for (const OptionRow& row : option_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(fields.insert(std::string(row.field_name())).second) << row.name;
    EXPECT_NE(row.in, 0U) << row.name;
    EXPECT_EQ(row.is_in(kInGenerate | kInTranslate | kInChat), *row.about != '\0') << row.name << ": flags have a help";
  }
  EXPECT_NO_THROW(SamplingConfig().validate());
}

TEST(Options, RangesInWords) {
  EXPECT_EQ(row_of("temperature").expected(), "a finite number >= 0");
  EXPECT_EQ(row_of("repeat_penalty").expected(), "a finite number > 0");
  EXPECT_EQ(row_of("top_p").expected(), "a number in [0, 1]");
  EXPECT_EQ(row_of("top_k").expected(), "a number >= 0");
  EXPECT_EQ(row_of("n_best").expected(), "a whole number from 1 to 1024");
  EXPECT_EQ(row_of("early_stop").expected(), "no, yes or never");
  EXPECT_EQ(row_of("top_k").flag(), "--top-k");
  EXPECT_THAT(row_of("top_p").help(), HasSubstr("(default: 0.95)"));
}

class Fields : public ObjectFields {
 public:
  explicit Fields(const Json& object) : ObjectFields(object, "unknown") {}

 private:
  std::exception_ptr error_of(std::string_view name, const std::string& message) const override {
    return std::make_exception_ptr(BadInput(std::string(name), "{}", message));
  }
};

/// The options of an object, or the error.
std::string read(const std::string& text, GenerateOptions& options) {
  const Json json = Json::parse(text);
  Fields fields(json);
  try {
    for (const OptionRow& row : option_rows()) read_option(fields, row.name, row, row.range, options);
    fields.finish();
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

TEST(Options, AreReadFromJson) {
  GenerateOptions o;
  EXPECT_EQ(read(R"({"max_tokens": 3, "temperature": 1, "seed": 18446744073709551615, "greedy": true, "stop": "a",
                     "prefix_ids": [1, 2], "early_stop": "yes", "top_k": null})",
                 o),
            "");
  EXPECT_EQ(o.max_tokens, 3);
  EXPECT_EQ(o.temperature, 1.0);
  EXPECT_EQ(o.seed, ~std::uint64_t{0});
  EXPECT_TRUE(o.greedy);
  EXPECT_THAT(o.stop, ElementsAre("a"));
  EXPECT_EQ(o.prefix_ids, (Ids{1, 2}));
  EXPECT_EQ(o.early_stop, "yes");
  EXPECT_FALSE(o.top_k || o.top_p);
  EXPECT_EQ(read(R"({"top_p": 2})", o), "[top_p] expected a number in [0, 1], got 2");
  EXPECT_EQ(read(R"({"top_p": "x"})", o), "[top_p] expected a number, got string");
  EXPECT_EQ(read(R"({"beam": 0})", o), "[beam] expected a whole number from 1 to 1024, got 0");
  EXPECT_EQ(read(R"({"beam": 1.5})", o), "[beam] expected a whole number, got 1.5");
  EXPECT_EQ(read(R"({"seed": -1})", o), "[seed] expected a whole number, got -1");
  EXPECT_EQ(read(R"({"early_stop": "perhaps"})", o), "[early_stop] expected no, yes or never, got perhaps");
  EXPECT_EQ(read(R"({"prefix_ids": [-1]})", o), "[prefix_ids] expected a list of ids, got array");
  EXPECT_EQ(read(R"({"temprature": 1})", o), "[temprature] unknown; did you mean temperature?");
}

TEST(Requests, ValuesAreTheCallersElseTheCheckpointsElseTheDefault) {
  RequestDefaults model;
  model.sampling.temperature = 0.5;
  model.sampling.top_k = 7;
  model.search.max_new_tokens = 9;
  model.search.n_beams = 4;
  model.stop_ids = {2};
  std::vector<std::string> from_checkpoint;
  GenerateRequest request = make_request(model, {5}, {.top_k = 3}, &from_checkpoint);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.top_p, SamplingConfig().top_p);
  EXPECT_THAT(from_checkpoint, ElementsAre("temperature"));
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.beam.n_beams, 1) << "who samples does not search";
  EXPECT_EQ(request.stop_ids, Ids{2});

  request = make_request(model, {5}, {.max_tokens = 1, .stop_ids = Ids{3}});
  EXPECT_EQ(request.beam.n_beams, 4);
  EXPECT_EQ(request.sampling.temperature, 0) << "who searches does not sample";
  EXPECT_EQ(request.max_tokens, 1);
  EXPECT_EQ(request.stop_ids, Ids{3});

  model.sampling.greedy = true;
  EXPECT_EQ(make_request(model, {5}, {.beam = 1}, &from_checkpoint).sampling.temperature, 0);
  EXPECT_THAT(from_checkpoint, ElementsAre("greedy"));
  EXPECT_EQ(make_request(model, {5}, {.min_p = 0.1}).sampling.temperature, 0.5);
  EXPECT_THROW(make_request(model, {5}, {.top_p = 2}), BadInput);
  EXPECT_THROW(make_request(model, {5}, {.prefix = "a"}), BadInput);
}

TEST(Requests, AnEmptyTextIsBos) {
  RequestDefaults model;
  EXPECT_THROW(ids_or_bos({}, model, "prompt"), BadInput);
  model.bos = 1;
  EXPECT_EQ(ids_or_bos({}, model, "prompt"), Ids{1});
  EXPECT_EQ(ids_or_bos({4}, model, "prompt"), Ids{4});
}

}  // namespace
}  // namespace vitrine
