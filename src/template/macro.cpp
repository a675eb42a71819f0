// Macros, and the bodies of call blocks.
#include "template/evaluate.h"
#include "template/format.h"

namespace vitrine::jinja {

std::string MacroValue::repr() const {
  return code_.name.empty() ? "<Macro anonymous>" : fmt::format("<Macro {}>", repr_text(code_.name));
}

Value MacroValue::attribute(Renderer&, std::string_view name) {
  for (const char* const known : {"name", "arguments", "caller", "catch_kwargs", "catch_varargs"}) {
    if (name == known) throw unsupported("attribute of a macro", name);
  }
  return {};
}

/// Sets the variables that a call gives, and those that it does not give, to `missing`.
void MacroValue::bind(Arguments& arguments) {
  Scope& scope = *evaluator_.scope_;
  const std::size_t n_parameters = code_.parameters.size(), n_given = arguments.positional.size();
  const std::string name = code_.name.empty() ? "None" : repr_text(code_.name);
  for (std::size_t i = 0; i < n_parameters; ++i) {
    const Name& parameter = *code_.parameters[i];
    scope.set(parameter.number, i < n_given ? arguments.positional[i] : arguments.take(parameter.name));
  }
  if (code_.reads_caller) {
    const Value caller = arguments.take("caller");
    scope.set(Tree::kCaller, caller.is_absent() ? evaluator_.undefined_because("No caller defined") : caller);
  }
  if (code_.reads_kwargs) {
    Dict* const rest = evaluator_.heap().make<Dict>(evaluator_.heap());
    for (const NamedArgument& argument : arguments.named) rest->set(evaluator_.text(argument.name), argument.value);
    scope.set(Tree::kKwargs, dict(rest));
  } else if (!arguments.named.empty()) {
    if (!arguments.take("caller").is_missing()) {
      throw type_error(
          "macro {} was invoked with two values for the special caller argument. This is most likely a bug.", name);
    }
    throw type_error("macro {} takes no keyword argument {}", name, repr_text(arguments.named[0].name));
  }
  if (code_.reads_varargs) {
    const auto rest = arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(n_parameters, n_given));
    scope.set(Tree::kVarargs, evaluator_.new_tuple({rest, arguments.positional.end()}));
  } else if (n_given > n_parameters) {
    throw type_error("macro {} takes not more than {} argument(s)", name, n_parameters);
  }
}

Value MacroValue::call(Renderer&, Arguments& arguments) {
  return evaluator_.in_scope(outer_, [&] {
    bind(arguments);
    Scope& scope = *evaluator_.scope_;
    const std::size_t n_required = code_.parameters.size() - code_.defaults.size();
    for (std::size_t i = 0; i < code_.parameters.size(); ++i) {
      const Name& parameter = *code_.parameters[i];
      if (!scope.variables[i].value.is_missing()) continue;
      const Value otherwise =
          i >= n_required
              ? evaluator_.evaluate(*code_.defaults[i - n_required])
              : evaluator_.undefined_because(fmt::format("parameter {} was not provided", repr_text(parameter.name)));
      scope.variables[i].value = otherwise;
    }
    return evaluator_.text(evaluator_.captured([&] { evaluator_.execute(code_.body); }));
  });
}

}  // namespace vitrine::jinja
