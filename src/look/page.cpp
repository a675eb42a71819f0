#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/markup.h"
#include "base/theme.h"
#include "look/bundle.h"
#include "look/figures.h"
#include "look/look.h"

namespace vitrine {
namespace {

struct Packed {
  std::string name;
  std::shared_ptr<const std::string> text;
};

std::vector<Packed> pack(const LookData& data, bool is_tight, ThreadPool& pool) {
  std::vector<Packed> blocks(data.blocks().size());
  pool.parallel_for(static_cast<std::int64_t>(blocks.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const LookBlock& block = data.blocks()[i];
      blocks[i] = {block.name, std::make_shared<const std::string>(packed(block, is_tight))};
    }
  });
  return blocks;
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

/// Whether the maps have 8 bits and can be halved.
bool can_be_halved(const LookData& maps) {
  if (maps.arrays().empty()) return false;
  const Json& first = maps.arrays().front();
  return !first["exact"].get<bool>() && first["shape"][1].get<std::int64_t>() >= 2 * kCoarsestMap;
}

/// The page up to the blocks of data.
std::string head_of(Look& look, const std::string& title) {
  Json& values = look.about["values"] = look.data.arrays();
  for (const Json& array : look.maps.arrays()) values.push_back(array);
  std::string head =
      "<!DOCTYPE html>\n<html lang=\"en\" data-vitrine=\"1\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-";
  head.append(page_script_hash()).append("'; style-src 'unsafe-inline'\">\n");
  head +=
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>";
  head.append(markup_escaped(title)).append("</title>\n<style>\n").append(kThemeStyle).append(page_style());
  head +=
      "</style>\n</head>\n<body>\n<div id=\"page\"><noscript>The figures need JavaScript, which is part of this "
      "file.</noscript></div>\n<script type=\"application/json\" id=\"index\">";
  return head.append(script_json(look.about)).append("</script>\n");
}

LookPage document(Look& look, const std::string& title, const std::vector<std::vector<Packed>*>& data) {
  LookPage page;
  page.add(head_of(look, title));
  const auto add_blocks = [&](bool first) {
    for (const std::vector<Packed>* blocks : data) {
      for (const Packed& block : *blocks) {
        if (block.name.ends_with(kTextBlock) != first) continue;
        page.add("<script type=\"application/octet-stream\" data-block=\"" + markup_escaped(block.name) + "\">");
        page.add(block.text);
        page.add("</script>\n");
      }
    }
  };
  // The first figures appear while the browser reads the blocks of the others.
  add_blocks(true);
  page.add("<script>" + std::string(page_script()) + "</script>\n");
  add_blocks(false);
  page.add("</body>\n</html>\n");
  return page;
}

}  // namespace

LookPage page_of(Look& look, const std::string& title, std::int64_t max_bytes, ThreadPool& pool) {
  std::vector<Packed> blocks = pack(look.data, false, pool), maps = pack(look.maps, false, pool);
  LookPage page = document(look, title, {&blocks, &maps});
  if (page.bytes > max_bytes) {
    blocks = pack(look.data, true, pool);
    maps = pack(look.maps, true, pool);
    page = document(look, title, {&blocks, &maps});
  }
  while (page.bytes > max_bytes && can_be_halved(look.maps)) {
    look.maps = halved(look.maps);
    maps = pack(look.maps, true, pool);
    page = document(look, title, {&blocks, &maps});
  }
  if (page.bytes > max_bytes) {
    constexpr std::int64_t kKiB = 1024;
    throw BadInput("--max-size", "expected at least {}K, the smallest page of this text, got {} bytes",
                   (page.bytes + kKiB - 1) / kKiB, max_bytes);
  }
  return page;
}

}  // namespace vitrine
