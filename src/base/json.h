// Parses JSON from untrusted files: bounded depth, unique keys, errors that name the file.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

/// A literal becomes a std::string first. Without this, the compiler instantiates a dozen templates of the library for
/// each length of a literal.
template <std::size_t n>
struct nlohmann::adl_serializer<char[n]> {
  template <class AnyJson>
  static void to_json(AnyJson& json, const char* text) {
    json = std::string(text);
  }
};

namespace vitrine {

using Json = nlohmann::json;

/// Parses `text`; `where` names the file in errors. Throws BadCheckpoint for a syntax error, a key that appears twice
/// in one object, nesting deeper than 64, or more than 2^20 values.
Json parse_json(std::string_view text, std::string_view where);

/// Builds a value from the events of a SAX parser, with the checks of parse_json. A derived class may handle some
/// events itself, so that large tables do not become Json values. (nlohmann's callback parser is no alternative: it
/// scans an object again after each of its members, which takes minutes for a header with 100,000 tensors.)
class JsonBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit JsonBuilder(std::string_view where) : where_(where) {}
  void parse(std::string_view text);
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override;
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override;

 protected:
  bool add(Json value);
  std::size_t depth() const { return open_.size(); }
  std::string_view where() const { return where_; }

 private:
  bool open(Json value);
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view where_;
  Json root_;
  std::vector<Json*> open_;  // outermost first
  Json* last_ = nullptr;     // the last value or, after a key, the place of the next value
  int n_values_ = 0;
};

}  // namespace vitrine
