// Dates and times of chat templates.
#pragma once

#include <string>
#include <string_view>

#include "template/chat_template.h"

namespace vitrine::jinja {

/// strftime() of a local time in the C locale, as Python's datetime has it on Linux: without a time zone.
std::string format_time(const TemplateClock& clock, std::string_view format);

}  // namespace vitrine::jinja
