// A page that `vitrine look` has written, and its arrays.
#pragma once

#include <zlib.h>

#include "cli/program.h"
#include "tokenizer/read/base64.h"

namespace vitrine::test {

/// A page that the command has written.
struct WrittenPage {
  Json report, index;
  std::string html;
};

inline WrittenPage look(Arguments arguments) {
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
inline std::string bytes_in(const WrittenPage& page, const std::string& name) {
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
  const std::string bytes = bytes_in(page, name);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace vitrine::test
