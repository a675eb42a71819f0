// The page's program and style: web/dist, which CMake embeds.
#pragma once

#include <string_view>

namespace vitrine {

std::string_view page_script();
std::string_view page_style();
/// SHA-256 of the script in base64, for the Content-Security-Policy.
std::string_view page_script_hash();

}  // namespace vitrine
