// `vitrine encode` and `similarity` on folders of sentence-transformers.
#include <cmath>

#include "cli/program.h"

namespace vitrine::test {
namespace {

std::string folder_of(const std::string& name) { return goldens() + "/sentences/" + name; }

std::vector<double> vector_of(const Arguments& arguments) {
  return json_of(arguments)["embedding"].get<std::vector<double>>();
}

double length_of(const std::vector<double>& vector) {
  double squares = 0;
  for (const double x : vector) squares += x * x;
  return std::sqrt(squares);
}

TEST(EncodeFolder, PromptsAreThoseOfTheFolderOrOfTheCommand) {
  const std::string folder = folder_of("pooled");
  EXPECT_EQ(vector_of({"encode", folder, "fish"}), vector_of({"encode", folder, "fish", "--prompt", "a "}));
  EXPECT_EQ(vector_of({"encode", folder, "fish", "--query"}),
            vector_of({"encode", folder, "fish", "--prompt-name", "query"}));
  EXPECT_EQ(vector_of({"encode", folder, "fish", "--document"}),
            vector_of({"encode", folder, "fish", "--prompt", "document : "}));
  EXPECT_NE(vector_of({"encode", folder, "fish"}), vector_of({"encode", folder, "fish", "--query"}));
  expect_error({"encode", folder, "fish", "--prompt-name", "none"}, {"document, other, query", "got none"});
  expect_usage_error({"encode", folder, "fish", "--query", "--document"});
  expect_usage_error({"encode", folder, "fish", "--prompt", "a", "--prompt-name", "query"});
}

TEST(EncodeFolder, CutsVectors) {
  const std::string folder = folder_of("pooled");
  const std::vector<double> whole = vector_of({"encode", folder, "fish"});
  const std::vector<double> cut = vector_of({"encode", folder, "fish", "--dimensions", "7"});
  ASSERT_EQ(cut.size(), 7U);
  EXPECT_NEAR(length_of(cut), 1, 1e-6);
  const double scale = length_of({whole.begin(), whole.begin() + 7});
  for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(cut[i], whole[i] / scale, 1e-6);
  expect_error({"encode", folder, "fish", "--dimensions", "73"}, {"--dimensions", "at most 72", "73"});
  expect_error({"encode", folder_of("words_max"), "fish", "--dimensions", "3"}, {"--dimensions", "weights of words"});
}

TEST(EncodeFolder, Precisions) {
  const std::string folder = folder_of("pooled");
  const TempFolder temp;
  const Launch texts{.input = "\"fish\"\n\"a cat\"\n\"the sea is deep\"\n"};
  for (const char* const precision : {"int8", "uint8", "binary", "ubinary"}) {
    const bool is_signed = precision[0] != 'u';
    const std::string file = temp / precision;
    const std::string printed = output_of({"encode", folder, "--lines", "--json", "--precision", precision}, texts);
    output_of({"encode", folder, "--lines", "--precision", precision, "--out", file}, texts);
    const std::string bytes = read_file(file);
    EXPECT_THAT(bytes.substr(0, 128), testing::HasSubstr(is_signed ? "'|i1'" : "'|u1'"));
    std::size_t at = 128;
    std::istringstream lines(printed);
    for (std::string line; std::getline(lines, line);) {
      for (const int x : Json::parse(line)["embedding"].get<std::vector<int>>()) {
        ASSERT_LT(at, bytes.size());
        EXPECT_EQ(static_cast<unsigned char>(bytes[at++]), static_cast<unsigned char>(x)) << precision;
      }
    }
    EXPECT_EQ(at, bytes.size());
  }
  expect_error({"encode", folder, "fish", "--precision", "int8"}, {"--ranges"});
  output_of({"encode", folder, "--lines", "--out", temp / "three.npy"}, texts);
  expect_error({"encode", folder, "fish", "--precision", "int8", "--ranges", temp / "three.npy"}, {"[2, d]", "3 rows"});
  output_of({"encode", folder, "--lines", "--out", temp / "two.npy", "--dimensions", "5"},
            {.input = "\"fish\"\n\"cat\"\n"});
  expect_error({"encode", folder, "fish", "--precision", "int8", "--ranges", temp / "two.npy"}, {"72", "5"});
  EXPECT_EQ(json_of({"encode", folder, "fish", "--precision", "int8", "--ranges", temp / "two.npy", "--dimensions",
                     "5"})["embedding"]
                .size(),
            5U);
  expect_usage_error({"encode", folder, "fish", "--ranges", temp / "two.npy"}, {"--precision"});
}

TEST(EncodeFolder, WeightsOfWords) {
  const std::string folder = folder_of("words_max");
  const std::vector<double> dense = vector_of({"encode", folder, "a fish"});
  const Json sparse = json_of({"encode", folder, "a fish", "--sparse"});
  std::size_t n = 0;
  for (std::size_t i = 0; i < dense.size(); ++i) {
    if (dense[i] == 0) continue;
    ASSERT_LT(n, sparse["indices"].size());
    EXPECT_EQ(sparse["indices"][n], i);
    EXPECT_EQ(sparse["values"][n], dense[i]);
    EXPECT_TRUE(sparse["tokens"][n++].is_string());
  }
  EXPECT_EQ(n, sparse["values"].size());
  expect_error({"encode", folder_of("pooled"), "fish", "--sparse"}, {"--sparse", "weights of words"});
}

TEST(EncodeFolder, VectorsOfTokens) {
  const std::string folder = folder_of("tokens");
  const Json rows = json_of({"encode", folder, "a cat , a fish", "--multi-vector"})["embedding"];
  EXPECT_EQ(rows.size(), 6U) << "two of them are [CLS] and [SEP]; the comma has none";
  EXPECT_EQ(rows[0].size(), 7U);
  EXPECT_EQ(json_of({"encode", folder, "fish", "--query"})["embedding"].size(), 11U);
  expect_error({"encode", folder_of("pooled"), "fish", "--multi-vector"}, {"--multi-vector", "one vector"});
  expect_error({"encode", folder_of("scores"), "fish"}, {"CrossEncoder", "rerank"});
}

TEST(EncodeFolder, ATextWithoutTokensHasTheVectorZeroInATable) {
  EXPECT_EQ(vector_of({"encode", folder_of("table"), ""}), std::vector<double>(9, 0.0));
}

TEST(EncodeFolder, LongTextsAreCutAndCounted) {
  const std::string folder = folder_of("pooled");
  std::string text;
  for (int i = 0; i < 100; ++i) text += "cat ";
  const Outcome cut = run_program({"encode", folder, text});
  EXPECT_EQ(cut.status, 0);
  EXPECT_THAT(cut.err, testing::HasSubstr("1 of the texts were cut to 20 tokens"));
  expect_error({"encode", folder, text, "--no-truncate"}, {"--no-truncate", "at most 20 tokens"});
}

TEST(EncodeFolder, TakesOneSourceOfTexts) {
  const std::string folder = folder_of("pooled");
  expect_usage_error({"encode", folder, "fish", "--lines"}, {"give one of TEXT, --lines and --ids"});
  expect_usage_error({"encode", folder, "fish", "--ids", "1,2"}, {"give one of TEXT, --lines and --ids"});
  expect_usage_error({"encode", folder, "--lines", "--ids", "1,2"}, {"give one of TEXT, --lines and --ids"});
}

TEST(Similarity, IsTheMatrixOfTheFoldersFunction) {
  const std::string folder = folder_of("pooled");
  const Json matrix = json_of({"similarity", folder, "fish", "a cat", "the sea"})["similarities"];
  ASSERT_EQ(matrix.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(matrix[i][i].get<double>(), 1, 1e-6);
    EXPECT_EQ(matrix[i][0], matrix[0][i]);
  }
  const auto a = vector_of({"encode", folder, "fish"}), b = vector_of({"encode", folder, "a cat"});
  double product = 0;
  for (std::size_t i = 0; i < a.size(); ++i) product += a[i] * b[i];
  EXPECT_NEAR(matrix[0][1].get<double>(), product, 1e-6);
  EXPECT_EQ(json_of({"similarity", folder, "--lines"}, {.input = "\"fish\"\n\"a cat\"\n\"the sea\"\n"})["similarities"],
            matrix);
  EXPECT_THAT(output_of({"similarity", folder, "fish", "a cat"}), testing::HasSubstr("1.0000"));
  expect_error({"similarity", folder_of("scores"), "fish", "cat"}, {"CrossEncoder"});
  expect_usage_error({"similarity", folder}, {"TEXT"});
}

TEST(Rerank, FoldersOfSentenceTransformers) {
  for (const char* const name : {"scores", "judge", "tokens", "pooled"}) {
    const Arguments texts = {"a cat eats fish", "the sea is deep", "fish"};
    Arguments arguments = {"rerank", folder_of(name), "what do cats eat ?"};
    arguments.insert(arguments.end(), texts.begin(), texts.end());
    const Json all = json_of(arguments)["results"];
    ASSERT_EQ(all.size(), 3U) << name;
    for (const Json& result : all) {
      const Json alone =
          json_of({"rerank", folder_of(name), "what do cats eat ?", texts[result["index"].get<std::size_t>()]});
      EXPECT_EQ(alone["results"][0]["score"], result["score"]) << name;
    }
  }
}

}  // namespace
}  // namespace vitrine::test
