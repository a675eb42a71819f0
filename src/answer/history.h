// Conversations as clients send them, in the form that a template reads.
#pragma once

#include "answer/format.h"

namespace vitrine::answer {

/// The messages of a conversation with calls of tools and their results, as the template reads them:
///  - a content that is absent or null is "", or stays away beside calls where the template wants that;
///  - arguments are JSON text or an object; null and "" are {}, a text that is no object is the argument `arguments` of
///    one;
///  - `function_call` is a call, a message with the role `function` its result;
///  - a result has the name of the call with its id;
///  - the role `developer` is `system` where the template does not know it.
/// Messages without any of these stay as they are.
OrderedJson history_as_read(const OrderedJson& messages, const AnswerFormat& format);

}  // namespace vitrine::answer
