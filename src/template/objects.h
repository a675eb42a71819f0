// Objects with behavior of their own: functions and methods, namespaces, cyclers, joiners. Macros and the loop object
// are in evaluate.h.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "template/value.h"

namespace vitrine::jinja {

class Renderer;

struct NamedArgument {
  std::string_view name;
  Value value;
};

/// The arguments of a call. Of a filter, test or method the first one is the value that it is applied to.
struct Arguments {
  std::vector<Value> positional;
  std::vector<NamedArgument> named;

  /// The arguments in the order of a function's parameters, `missing` where one is not given. Throws TemplateError
  /// (TypeError) for unknown names, too many arguments and fewer than `n_required`.
  template <std::size_t n>
  std::array<Value, n> bind(const char* function, const char* const (&names)[n], std::size_t n_required) const {
    std::array<Value, n> values;
    bind_to(function, names, n, n_required, values.data());
    return values;
  }
  /// Removes and returns the argument with a name, or `missing`.
  Value take(std::string_view name);

 private:
  void bind_to(const char* function, const char* const* names, std::size_t n, std::size_t n_required,
               Value* values) const;
};

class Object {
 public:
  virtual std::string_view type_name() const = 0;
  virtual std::string repr() const = 0;
  /// An attribute that can be read, or `missing`.
  virtual Value attribute(Renderer&, std::string_view) { return {}; }
  /// len(), or -1 for objects without one.
  virtual std::int64_t size() { return -1; }
  virtual bool is_callable() const { return true; }
  virtual Value call(Renderer& renderer, Arguments& arguments);

 protected:
  ~Object() = default;
};

using Builtin = Value(Renderer& renderer, Arguments& arguments);

/// A function of the engine, or a method together with the value that it belongs to.
class Function final : public Object {
 public:
  constexpr Function(std::string_view name, Builtin* run) : name_(name), run_(run) {}
  Function(std::string_view name, Builtin* run, const Value& self) : name_(name), run_(run), self_(self) {}
  std::string_view name() const { return name_; }
  std::string_view type_name() const override { return self_.is_missing() ? "function" : "builtin_function_or_method"; }
  std::string repr() const override;
  Value call(Renderer& renderer, Arguments& arguments) override;

 private:
  std::string_view name_;
  Builtin* run_;
  Value self_{};
};

/// `namespace(…)`: the only object whose attributes a template can assign.
class Namespace final : public Object {
 public:
  explicit Namespace(Heap& heap) : attributes_(heap) {}
  std::string_view type_name() const override { return "TemplateNamespace"; }
  std::string repr() const override;
  Value attribute(Renderer& renderer, std::string_view name) override;
  bool is_callable() const override { return false; }
  /// Throws TemplateError (security) for names that begin with an underscore.
  void set(const Value& name, const Value& value);
  const Dict& attributes() const { return attributes_; }

 private:
  Dict attributes_;
};

Namespace* as_namespace(const Value& value);

/// The global function with a name, or `missing`.
Value global(std::string_view name);

}  // namespace vitrine::jinja
