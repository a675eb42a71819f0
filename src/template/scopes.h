// Decides where each variable of a template is stored, with jinja2's rules of scope.
//
// jinja2 compiles a template to Python functions: the template, each macro, each block, each recursive loop. A variable
// is a local of one of them, named by its nesting level: a loop's variable `x` at level 1 shares its place with the `x`
// of a later loop at that level. Whether a variable begins as missing, as the variable of an outer scope or as a value
// of the context depends on where the scope first mentions it. The same places and beginnings are assigned here.
#pragma once

#include "template/ast.h"

namespace vitrine::jinja {

/// Completes the slots and loads of a tree. Throws TemplateError (syntax) for errors that jinja2's compiler reports:
/// unknown filters and tests outside conditions, `break` outside a loop, assignments to `loop` in a loop.
void resolve_variables(Tree& tree);

}  // namespace vitrine::jinja
