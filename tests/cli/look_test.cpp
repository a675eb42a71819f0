// vitrine look: the page's index and blocks, its size limit, hostile texts, and errors. `make page-test` drives the
// page in a browser.
#include <zlib.h>

#include <regex>

#include "cli/program.h"
#include "tokenizer/base64.h"

namespace vitrine::test {
namespace {

namespace fs = std::filesystem;

const std::string kText = "Once upon a time there was a little girl";

/// A page that the command has written.
struct WrittenPage {
  Json report, index;
  std::string html;
};

WrittenPage look(Arguments arguments) {
  const TempFolder folder;
  const std::string path = folder / "look.html";
  arguments.insert(arguments.begin(), "look");
  arguments.insert(arguments.end(), {"--out", path});
  WrittenPage page;
  page.report = json_of(arguments);
  page.html = read_file(path);
  const std::string begin = "id=\"index\">";
  const std::size_t first = page.html.find(begin) + begin.size();
  page.index = Json::parse(page.html.substr(first, page.html.find("</script>", first) - first));
  return page;
}

/// The bytes of an array.
std::string bytes_of(const WrittenPage& page, const std::string& name) {
  for (const Json& array : page.index["values"]) {
    if (array["name"] != name) continue;
    const std::string begin = "data-block=\"" + array["block"].get<std::string>() + "\">";
    const std::size_t first = page.html.find(begin) + begin.size();
    std::string digits = page.html.substr(first, page.html.find('<', first) - first);
    while (digits.ends_with('=')) digits.pop_back();
    const std::string packed = decode_base64(digits).value().bytes;
    uLongf size = 1 << 24;
    std::string bytes(size, '\0');
    EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                         packed.size()),
              Z_OK);
    std::size_t n = array["type"] == "u8" ? 1 : array["type"] == "f64" ? 8 : 4;
    for (const Json& extent : array["shape"]) n *= extent.get<std::size_t>();
    return bytes.substr(array["offset"], n);
  }
  ADD_FAILURE() << "no array " << name;
  return "";
}

template <class T>
std::vector<T> values_of(const WrittenPage& page, const std::string& name) {
  const std::string bytes = bytes_of(page, name);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(LookCommand, ThePredictionsAreThoseOfPredict) {
  const WrittenPage page = look({kText});
  const Json predicted = json_of({"predict", kText})["tokens"];
  const auto ids = values_of<std::int32_t>(page, "top.id");
  const auto probs = values_of<double>(page, "top.prob");
  ASSERT_EQ(ids.size(), predicted.size() * 10);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(ids[i], predicted[i / 10]["top"][i % 10]["id"]);
    EXPECT_EQ(probs[i], predicted[i / 10]["top"][i % 10]["prob"]);
  }
}

TEST(LookCommand, TheFunnelDrawsWhatGenerateDraws) {
  for (const char* seed : {"0", "1", "2", "3", "4"}) {
    const WrittenPage page = look({kText, "--seed", seed});
    const auto ids = values_of<std::int32_t>(page, "funnel.id"), kept = values_of<std::int32_t>(page, "funnel.kept");
    const auto probs = values_of<double>(page, "funnel.prob");
    double total = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) total += kept[i] == 0 ? probs[i] : 0;
    double rest = values_of<double>(page, "funnel.draw").front() * total;
    std::size_t drawn = 0;
    while (kept[drawn] != 0 || (rest -= probs[drawn]) >= 0) ++drawn;
    EXPECT_EQ(ids[drawn], json_of({"generate", kText, "--max-tokens", "1", "--seed", seed})["ids"].back());
  }
}

TEST(LookCommand, SpelledValuesHaveTheResultOfTheirArithmetic) {
  const WrittenPage page = look({kText});
  std::size_t n = 0;
  for (const Json& cell : page.index["cells"]) {
    if (!cell.contains("result")) continue;
    const double value = cell["value"];
    EXPECT_NEAR(cell["result"].get<double>(), value, 1e-4 * (1 + std::abs(value))) << cell["name"];
    ++n;
  }
  EXPECT_GT(n, 600U);
}

TEST(LookCommand, TheTrailLeadsFromTheLogitToTheText) {
  const WrittenPage page = look({kText});
  std::map<std::string, Json> cells;
  std::string name;
  double largest = -1e9;
  for (const Json& cell : page.index["cells"]) {
    cells[cell["name"]] = cell;
    if (cell["site"] == "hook_logits" && cell["value"] > largest) {
      largest = cell["value"];
      name = cell["name"];
    }
  }
  std::string last;
  for (int steps = 0; steps < 1000 && cells.contains(name); ++steps) {
    last = name;
    const Json& cell = cells[name];
    name = cell.contains("parents") && !cell["parents"].empty() ? cell["parents"][0].get<std::string>() : "";
  }
  EXPECT_TRUE(last.starts_with("hook_embed")) << "the trail ends at " << last;
}

TEST(LookCommand, AHostileTextCannotEndAScript) {
  const std::string text = "He said </script><script>alert(1)</script> & \"<b>\" \xF0\x9F\x98\x80 \x01 \xE2\x80\xAE x";
  const WrittenPage page = look({text});
  const auto count = [&](const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = page.html.find(part); at != std::string::npos; at = page.html.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<script"), count("</script>"));
  EXPECT_EQ(count("<script>alert"), 0U);
  EXPECT_EQ(page.html.find("http://"), page.html.find("http://www.w3.org/"));
}

TEST(LookCommand, ASmallLimitLeavesPartsOutAndSaysSo) {
  const WrittenPage page = look({kText, "--max-size", "1M"});
  EXPECT_LE(page.report["bytes"], 1 << 20);
  std::string left_out;
  for (const Json& part : page.report["left_out"]) {
    left_out += part["what"].get<std::string>() + "; ";
    EXPECT_THAT(part["option"].get<std::string>(), testing::StartsWith("--max-size "));
  }
  EXPECT_THAT(left_out, testing::HasSubstr("every site at all positions"));
  EXPECT_TRUE(look({kText, "--max-size", "64M"}).report["left_out"].empty());
}

TEST(LookCommand, ErrorsAreOneLineAndLeaveNoFile) {
  const TempFolder folder;
  const std::string path = folder / "none.html";
  expect_error({"look", kText, "--position", "10", "--out", path}, {"--position", "0 to 9", "10"});
  expect_error({"look", kText, "--max-size", "much", "--out", path}, {"--max-size", "16M", "much"});
  expect_error({"look", kText, "--words", "Onceupon", "--out", path}, {"one token"});
  expect_error({"look", kText, "--corrupted", "Once upon", "--out", path}, {"--corrupted", "10", "3"});
  expect_usage_error({"look", kText}, {"--out"});
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace vitrine::test
