#include "serve/constraint_fields.h"

#include <string>

#include "constrain/schema/ordered_json.h"

namespace vitrine {
namespace {

/// Reads constraints, of which a request has one at most.
class ConstraintReader {
 public:
  ConstraintReader(std::string_view body, GenerateOptions& options) : body_(body), options_(options) {}

  /// A schema, or its text as JSON, at a place such as "#/response_format/schema".
  void take_schema(RequestFields& fields, std::string_view name, const std::string& pointer) {
    const Json* const value = fields.find(name);
    if (value == nullptr) return;
    if (options_.schema) fail(fields, name);
    if (value->is_string()) {
      options_.schema = value->get<std::string>();
      return;
    }
    const constrain::OrderedJson all = constrain::parse_ordered_json(body_, "request");
    options_.schema = constrain::json_text(*constrain::follow_pointer(all, pointer));
  }
  void take_text(RequestFields& fields, std::string_view name, std::optional<std::string> GenerateOptions::*place) {
    const std::optional<std::string> text = fields.text(name);
    if (text && options_.*place) fail(fields, name);
    if (text) options_.*place = text;
  }
  void take_choice(RequestFields& fields, std::string_view name) {
    const auto texts = fields.get<std::vector<std::string>>(name, "a list of texts");
    if (texts && !options_.choice.empty()) fail(fields, name);
    if (texts) options_.choice = *texts;
  }
  void take_object(bool is_wanted) { options_.json_object = options_.json_object || is_wanted; }

 private:
  [[noreturn]] static void fail(const RequestFields& fields, std::string_view name) {
    fields.fail(name, "expected one constraint, got several");
  }

  std::string_view body_;
  GenerateOptions& options_;
};

/// OpenAI's form; llama-server has a schema next to the type.
void read_response_format(RequestFields& fields, ConstraintReader& reader) {
  const Json* const format = fields.find("response_format");
  if (format == nullptr) return;
  RequestFields own = fields.of(*format, "response_format");
  const std::string type = own.text("type").value_or("");
  if (type == "json_schema") {
    const Json* const schema = own.find("json_schema");
    if (schema == nullptr) {
      own.find("schema") != nullptr ? reader.take_schema(own, "schema", "#/response_format/schema")
                                    : own.fail("json_schema", "expected an object with a schema");
    } else {
      RequestFields inner = own.of(*schema, "json_schema");
      inner.ignore({"name", "description", "strict"});
      if (inner.find("schema") == nullptr) inner.fail("schema", "expected a JSON Schema");
      reader.take_schema(inner, "schema", "#/response_format/json_schema/schema");
      inner.finish();
    }
  } else if (type == "json_object") {
    if (own.find("schema") == nullptr) reader.take_object(true);
    reader.take_schema(own, "schema", "#/response_format/schema");
  } else if (type != "text") {
    throw RequestError(kInvalid, "response_format", "expected the type text, json_object or json_schema, got \"{}\"",
                       type);
  }
  own.finish();
}

/// vLLM's form.
void read_structured_outputs(RequestFields& fields, ConstraintReader& reader, GenerateOptions& options) {
  const Json* const outputs = fields.find("structured_outputs");
  if (outputs == nullptr) return;
  RequestFields own = fields.of(*outputs, "structured_outputs");
  reader.take_schema(own, "json", "#/structured_outputs/json");
  reader.take_text(own, "regex", &GenerateOptions::regex);
  reader.take_choice(own, "choice");
  reader.take_text(own, "grammar", &GenerateOptions::grammar);
  reader.take_object(own.flag("json_object").value_or(false));
  if (own.flag("disable_any_whitespace").value_or(false)) options.whitespace = "none";
  own.ignore({"disable_fallback", "disable_additional_properties"});
  own.refuse("structural_tag", "is not supported");
  own.refuse("whitespace_pattern", "is not supported: \"whitespace\" is \"none\", or absent");
  own.finish();
}

}  // namespace

void read_constraint(std::string_view body, RequestFields& fields, GenerateOptions& options) {
  ConstraintReader reader(body, options);
  read_response_format(fields, reader);
  read_structured_outputs(fields, reader, options);
  reader.take_schema(fields, "json_schema", "#/json_schema");
  reader.take_schema(fields, "guided_json", "#/guided_json");
  reader.take_text(fields, "guided_regex", &GenerateOptions::regex);
  reader.take_choice(fields, "guided_choice");
  reader.take_text(fields, "guided_grammar", &GenerateOptions::grammar);
  options.no_must_finish = !fields.flag("must_finish").value_or(true);
  if (options.grammar && options.grammar->empty()) options.grammar.reset();  // llama-server's clients send it
}

void compile_constraint(const ServedModel& model, const GenerateOptions& options) {
  std::string field = "response_format";
  try {
    const std::optional<constrain::Source> source = constraint_of(options);
    if (!source) return;
    field = options.schema ? "schema" : options.regex ? "regex" : options.grammar ? "grammar" : "choice";
    if (model.defaults.constraints == nullptr) throw BadInput(field, "a constraint on the text needs a tokenizer");
    model.defaults.constraints->get(*source);
  } catch (const Error& e) {
    throw RequestError(kInvalid, field, "{}", e.what());
  }
}

}  // namespace vitrine
