# What `make install` and `make package` put where. The program finds its default model beside itself, in
# ../share/vitrine, so the tree may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# One archive of all rooms: vitrine::vitrine.
set(rooms base parallel tokenizer tensor quant kernels autograd cache pass ops model checkpoint inspect generate data metrics train vitrine)
set(objects "")
foreach(room ${rooms})
  list(APPEND objects $<TARGET_OBJECTS:vitrine_${room}>)
endforeach()
add_library(vitrine_library STATIC ${objects})
set_target_properties(vitrine_library PROPERTIES OUTPUT_NAME vitrine EXPORT_NAME vitrine LINKER_LANGUAGE CXX)
target_compile_features(vitrine_library INTERFACE cxx_std_20)
target_link_libraries(vitrine_library PRIVATE fmt::fmt Threads::Threads PkgConfig::PCRE2 PkgConfig::UTF8PROC)
target_include_directories(vitrine_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# The interface: vitrine.h and what it includes. In an installed header "room/name.h" becomes <vitrine/room/name.h>, so
# that nothing but the folder vitrine stands in the include path.
set(interface vitrine/vitrine.h base/exceptions.h generate/result.h generate/sampler.h tensor/dtype.h tokenizer/tokenizer.h tokenizer/explanation.h)
foreach(header ${interface})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${header})
  file(READ ${CMAKE_SOURCE_DIR}/src/${header} text)
  string(REGEX REPLACE "#include \"([a-z_]+/[a-z_0-9]+\\.h)\"" "#include <vitrine/\\1>" text "${text}")
  string(REGEX REPLACE "^vitrine/" "" place ${header})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/include/vitrine/${place} CONTENT "${text}" @ONLY)
endforeach()

# Made by the program from its own options.
set(made "")
foreach(page "vitrine.1|man" "vitrine.bash|completion bash" "_vitrine|completion zsh" "vitrine.fish|completion fish")
  string(REPLACE "|" ";" page "${page}")
  list(GET page 0 file)
  list(GET page 1 command)
  separate_arguments(command)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/pages/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/pages
    COMMAND vitrine ${command} > ${CMAKE_BINARY_DIR}/pages/${file} DEPENDS vitrine VERBATIM)
  list(APPEND made ${CMAKE_BINARY_DIR}/pages/${file})
endforeach()
# gzip without name and time, as Debian's policy asks for.
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/pages/vitrine.1.gz
  COMMAND gzip -9nc ${CMAKE_BINARY_DIR}/pages/vitrine.1 > ${CMAKE_BINARY_DIR}/pages/vitrine.1.gz
  DEPENDS ${CMAKE_BINARY_DIR}/pages/vitrine.1)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/pages/changelog.gz
  COMMAND gzip -9nc ${CMAKE_SOURCE_DIR}/cmake/debian_changelog > ${CMAKE_BINARY_DIR}/pages/changelog.gz
  DEPENDS cmake/debian_changelog ${CMAKE_BINARY_DIR}/pages/vitrine.1)
add_custom_target(vitrine_pages DEPENDS ${made} ${CMAKE_BINARY_DIR}/pages/vitrine.1.gz
  ${CMAKE_BINARY_DIR}/pages/changelog.gz)
add_custom_target(product ALL DEPENDS vitrine vitrine_library vitrine_pages)  # all that is installed

install(TARGETS vitrine RUNTIME COMPONENT program)
install(DIRECTORY models/default DESTINATION ${CMAKE_INSTALL_DATADIR}/vitrine/models COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/pages/vitrine.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/pages/vitrine.bash RENAME vitrine
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/pages/_vitrine
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/pages/vitrine.fish
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

set(package_dir lib/cmake/vitrine)
install(TARGETS vitrine_library EXPORT vitrine ARCHIVE DESTINATION lib COMPONENT library)
install(DIRECTORY ${CMAKE_BINARY_DIR}/include/vitrine DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libvitrine-dev COMPONENT library)
install(EXPORT vitrine NAMESPACE vitrine:: FILE vitrine-targets.cmake DESTINATION ${package_dir} COMPONENT library)
configure_package_config_file(cmake/vitrine-config.cmake.in ${CMAKE_BINARY_DIR}/vitrine-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/vitrine-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/vitrine-config.cmake ${CMAKE_BINARY_DIR}/vitrine-config-version.cmake
  DESTINATION ${package_dir} COMPONENT library)
configure_file(cmake/vitrine.pc.in ${CMAKE_BINARY_DIR}/vitrine.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/vitrine.pc DESTINATION lib/pkgconfig COMPONENT library)

# Two Debian packages: vitrine (the program), libvitrine-dev (the library).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME vitrine)
# Whoever builds a package to give it away says who answers for it (Debian's DEBEMAIL); else the address says that
# nobody does: .invalid is kept for that (RFC 2606).
set(CPACK_PACKAGE_CONTACT "The vitrine authors <nobody@vitrine.invalid>")
if(DEFINED ENV{DEBEMAIL})
  set(CPACK_PACKAGE_CONTACT "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program library)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME vitrine)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "transformer language-model engine that shows every value
Runs Hugging Face and llama2.c checkpoints on a CPU, with the same bits on any
number of threads, and reads or writes every intermediate value.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libvitrine-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "libfmt-dev, libpcre2-dev, libutf8proc-dev, pkg-config | pkgconf")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "transformer language-model engine (library)
The engine of vitrine as a static library, with one header and a CMake
package.")

# What Debian's policy asks for: a copyright file and a changelog in each package.
foreach(package "program|vitrine" "library|libvitrine-dev")
  string(REPLACE "|" ";" package ${package})
  list(GET package 0 component)
  list(GET package 1 name)
  install(FILES cmake/debian_copyright RENAME copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
    COMPONENT ${component})
  install(FILES ${CMAKE_BINARY_DIR}/pages/changelog.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
    COMPONENT ${component})
endforeach()
include(CPack)
cpack_add_component(program)
cpack_add_component(library)
