#include <algorithm>

#include "base/markup.h"
#include "base/theme.h"
#include "look/bundle.h"
#include "look/look.h"

namespace vitrine {
namespace {

struct Packed {
  std::string name, text;
};

std::vector<Packed> pack(const LookData& data, ThreadPool& pool) {
  std::vector<Packed> blocks(data.blocks().size());
  pool.parallel_for(static_cast<std::int64_t>(blocks.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      blocks[i] = {data.blocks()[i].name, packed(data.blocks()[i])};
    }
  });
  return blocks;
}

std::int64_t size_of(const std::vector<Packed>& blocks) {
  std::int64_t size = 0;
  for (const Packed& block : blocks) size += static_cast<std::int64_t>(block.text.size());
  return size;
}

/// Maps of half the rows and columns: each element is the largest of four.
LookData halved(const LookData& maps) {
  LookData result;
  for (const Json& array : maps.arrays()) {
    const auto block = std::find_if(maps.blocks().begin(), maps.blocks().end(),
                                    [&](const LookBlock& b) { return b.name == array["block"]; });
    const LookData::Sizes shape = array["shape"];
    const auto* const from =
        reinterpret_cast<const unsigned char*>(block->bytes.data()) + array["offset"].get<std::size_t>();
    const std::int64_t rows = (shape[1] + 1) / 2, columns = (shape[2] + 1) / 2;
    std::vector<float> values(static_cast<std::size_t>(shape[0] * rows * columns));
    for (std::int64_t i = 0; i < shape[0] * shape[1] * shape[2]; ++i) {
      const std::int64_t h = i / (shape[1] * shape[2]), t = i / shape[2] % shape[1], s = i % shape[2];
      const float level = static_cast<float>(from[i]) / 255;
      float& to = values[static_cast<std::size_t>((h * rows + t / 2) * columns + s / 2)];
      to = std::max(to, level * level);
    }
    std::string name = array["name"], of = array["block"];
    if (name.starts_with(kAfter)) {
      result.begin_after();
      name.erase(0, kAfter.size());
    }
    if (of.starts_with(kAfter)) of.erase(0, kAfter.size());
    result.add_picture(of, name, {shape[0], rows, columns}, values);
  }
  return result;
}

}  // namespace

std::string page_of(Look& look, const std::string& title, std::int64_t max_bytes, ThreadPool& pool) {
  std::vector<Packed> blocks = pack(look.data, pool);
  std::vector<Packed> maps = pack(look.maps, pool);
  const std::int64_t overhead = static_cast<std::int64_t>(page_script().size() + page_style().size()) + 200'000;
  const bool are_pictures = !look.maps.arrays().empty() && !look.maps.arrays().front()["exact"].get<bool>();
  while (are_pictures && size_of(maps) + size_of(blocks) + overhead > max_bytes &&
         look.maps.arrays().front()["shape"][1].get<std::int64_t>() > 64) {
    look.maps = halved(look.maps);
    maps = pack(look.maps, pool);
  }
  Json index = look.about;
  index["values"] = look.data.arrays();
  for (const Json& array : look.maps.arrays()) index["values"].push_back(array);

  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\" data-vitrine=\"1\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-" +
      std::string(page_script_hash()) +
      "'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
      markup_escaped(title) + "</title>\n<style>\n" + std::string(kThemeStyle) + std::string(page_style()) +
      "</style>\n</head>\n<body>\n<div id=\"page\"><noscript>The figures need JavaScript, which is part of this "
      "file.</noscript></div>\n"
      "<script type=\"application/json\" id=\"index\">" +
      script_json(index) + "</script>\n";
  // The first figures appear while the browser reads the blocks of the others.
  blocks.insert(blocks.end(), maps.begin(), maps.end());
  const auto others = std::stable_partition(blocks.begin(), blocks.end(),
                                            [](const Packed& block) { return block.name.ends_with(kTextBlock); });
  for (auto block = blocks.begin(); block != blocks.end(); ++block) {
    if (block == others) page += "<script>" + std::string(page_script()) + "</script>\n";
    page += "<script type=\"application/octet-stream\" data-block=\"" + markup_escaped(block->name) + "\">" +
            block->text + "</script>\n";
  }
  return page + "</body>\n</html>\n";
}

}  // namespace vitrine
