#include "cli/templates.h"

#include "base/error.h"
#include "base/mapped_file.h"

namespace vitrine::cli {

ChatTemplates open_templates(const std::string& model, const std::string& file) {
  ChatTemplates templates;
  try {
    templates = load_chat_templates(model);
  } catch (const BadInput&) {  // a format without templates
  }
  if (!file.empty()) templates.by_name = {{"default", std::string(MappedFile::open(file)->text())}};
  return templates;
}

}  // namespace vitrine::cli
