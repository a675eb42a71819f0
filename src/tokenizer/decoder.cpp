#include "tokenizer/decoder.h"

#include <charconv>
#include <memory>
#include <utility>

#include "base/error.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/read/json_fields.h"
#include "tokenizer/space_cleanup.h"
#include "tokenizer/split.h"
#include "tokenizer/utf8.h"

namespace vitrine {
namespace {

using Context = Decoder::Context;

constexpr std::size_t kMaxTokenBytes = std::size_t{64} << 10;  // of a token after replacements

std::string with_all(std::string text, std::string_view from, std::string_view to) {
  return replaced(text, Pattern(std::string(from)), to, kMaxTokenBytes);
}

/// <0xNN> becomes the byte.
void byte_fallback(std::string& token, const Context&) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return;
  unsigned char byte = 0;
  const char* const end = token.data() + 5;
  if (std::from_chars(end - 2, end, byte, 16).ptr == end) token = std::string(1, static_cast<char>(byte));
}

void decode_byte_level(std::string& token, const Context&) {
  std::string bytes;
  if (append_from_byte_level(token, bytes)) token = std::move(bytes);  // other tokens are unchanged
}

/// Removes up to `start` copies of `content` from the front and up to `stop` from the end.
void strip(std::string& token, std::string_view content, std::int64_t start, std::int64_t stop) {
  std::string_view rest = token;
  for (std::int64_t i = 0; i < start && rest.starts_with(content); ++i) rest.remove_prefix(content.size());
  for (std::int64_t i = 0; i < stop && rest.ends_with(content); ++i) rest.remove_suffix(content.size());
  token = std::string(rest);
}

/// Source: decoders/wordpiece.rs (cleanup), which has one rule more than transformers.
std::string cleaned_up(std::string_view text) { return with_all(clean_up_spaces(text), " do not", " don't"); }

}  // namespace

Decoder::Decoder(const Json& json, std::string_view where) {
  bool is_fused = false;
  if (json.is_null()) {
    steps_.push_back([](std::string& token, const Context& c) {
      if (!c.is_first) token.insert(0, 1, ' ');
    });
  } else {
    parse(json, where, is_fused);
  }
}

std::string Decoder::operator()(std::string_view piece, const Context& context) const {
  std::string token(piece);
  for (const Step& step : steps_) step(token, context);
  return token;
}

void Decoder::parse(const Json& json, std::string_view where, bool& is_fused) {
  const JsonFields fields(json, "the decoder", where);
  const std::string type = fields.string("type");
  if (type == "Sequence") {
    fields.allow({"type", "decoders"});
    for (const Json& part : fields.array("decoders")) parse(part, where, is_fused);
  } else if (type == "ByteLevel") {
    fields.allow({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    steps_.push_back(decode_byte_level);
  } else if (type == "ByteFallback") {
    fields.allow({"type"});
    steps_.push_back(byte_fallback);
  } else if (type == "Fuse") {
    fields.allow({"type"});
    is_fused = true;
  } else if (type == "Replace") {
    fields.allow({"type", "pattern", "content"});
    auto pattern = std::make_shared<const Pattern>(parse_pattern(fields.at("pattern"), where));
    steps_.push_back([pattern, content = fields.string("content")](std::string& token, const Context&) {
      if (is_valid_utf8(token)) token = replaced(token, *pattern, content, kMaxTokenBytes);
    });
  } else if (type == "Strip") {
    fields.allow({"type", "content", "start", "stop"});
    const std::string content = fields.string("content");
    const std::int64_t start = fields.integer("start", 0), stop = fields.integer("stop", 0);
    if (content.empty()) throw BadCheckpoint(where, "expected a character as the content of Strip, got none");
    if (is_fused && stop > 0) throw Unsupported(where, "a decoder that strips the end of the text is not supported");
    steps_.push_back([content, start, stop, is_fused](std::string& token, const Context& c) {
      if (!is_fused || c.is_first) strip(token, content, start, stop);
    });
  } else if (type == "Metaspace") {
    const Metaspace m = parse_metaspace(fields);
    const bool drops_first = m.scheme != Metaspace::Scheme::never;
    steps_.push_back([mark = m.replacement, drops_first](std::string& token, const Context& c) {
      token = with_all(std::move(token), mark, c.is_first && drops_first ? "" : " ");
    });
  } else if (type == "WordPiece") {
    fields.allow({"type", "prefix", "cleanup"});
    steps_.push_back([prefix = fields.string("prefix", "##"), cleanup = fields.boolean("cleanup", true)](
                         std::string& token, const Context& c) {
      if (!c.is_first) token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
      if (cleanup) token = cleaned_up(token);
    });
  } else if (type == "BPEDecoder") {
    fields.allow({"type", "suffix"});
    const std::string suffix = fields.string("suffix", "</w>");
    if (suffix.empty()) throw BadCheckpoint(where, "expected a suffix of BPEDecoder, got none");
    steps_.push_back([suffix](std::string& token, const Context& c) {
      // The space belongs to the end of a word, but is written only if another token follows.
      const bool after_word = !c.is_first && c.previous.ends_with(suffix);
      if (token.ends_with(suffix)) token.resize(token.size() - suffix.size());
      token = (after_word ? " " : "") + with_all(std::move(token), suffix, " ");
    });
  } else {
    throw Unsupported(where, "the decoder \"{}\" is not supported", type);
  }
}

}  // namespace vitrine
