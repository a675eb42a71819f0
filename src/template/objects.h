// Objects with attributes of their own: namespaces, cyclers, joiners. The loop object is in evaluate.h.
#pragma once

#include <string>
#include <string_view>

#include "template/callable.h"
#include "template/value.h"

namespace vitrine::jinja {

class Renderer;

class Object {
 public:
  virtual std::string_view type_name() const = 0;
  virtual std::string repr() const = 0;
  /// An attribute, or `missing`.
  virtual Value attribute(Renderer& renderer, std::string_view name) = 0;
  /// len(), or -1 for objects without one.
  virtual std::int64_t size() { return -1; }
  /// Whether the object can be called, and the call.
  virtual bool is_callable() const { return false; }
  virtual Value call(Renderer& renderer, Arguments& arguments);
  /// obj[key], or `missing`.
  virtual Value item(Renderer&, const Value&) { return {}; }

 protected:
  ~Object() = default;
};

/// `namespace(…)`: the only object whose attributes a template can assign.
class Namespace final : public Object {
 public:
  Namespace(Heap& heap) : attributes_(heap) {}
  std::string_view type_name() const override { return "TemplateNamespace"; }
  std::string repr() const override;
  Value attribute(Renderer& renderer, std::string_view name) override;
  /// Throws TemplateError (security) for names that begin with an underscore.
  void set(const Value& name, const Value& value);
  Dict& attributes() { return attributes_; }

 private:
  Dict attributes_;
};

Namespace* as_namespace(const Value& value);

/// `cycler(…)`.
class Cycler final : public Object {
 public:
  explicit Cycler(List* items) : items_(items) {}
  std::string_view type_name() const override { return "Cycler"; }
  std::string repr() const override { return "<jinja2.utils.Cycler object>"; }
  Value attribute(Renderer& renderer, std::string_view name) override;

 private:
  friend Value cycler_next(Renderer&, Arguments&);
  friend Value cycler_reset(Renderer&, Arguments&);
  List* items_;
  std::size_t position_ = 0;
};

/// `joiner(…)`: nothing when called first, later its separator.
class Joiner final : public Object {
 public:
  explicit Joiner(const Value& separator) : separator_(separator) {}
  std::string_view type_name() const override { return "Joiner"; }
  std::string repr() const override { return "<jinja2.utils.Joiner object>"; }
  Value attribute(Renderer& renderer, std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(Renderer& renderer, Arguments& arguments) override;

 private:
  Value separator_;
  bool is_used_ = false;
};

/// The global function or class with a name, or `missing`.
Value global(std::string_view name);

}  // namespace vitrine::jinja
