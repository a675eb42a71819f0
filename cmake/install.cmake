# What `make install` and `make package` install, and where. The program finds its default model in ../share/vitrine, as
# seen from its own folder, so the installed tree can be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The program makes these from its own options.
set(made "")
foreach(page "vitrine.1|man" "vitrine.bash|completion bash" "_vitrine|completion zsh" "vitrine.fish|completion fish")
  string(REPLACE "|" ";" page "${page}")
  list(GET page 0 file)
  list(GET page 1 command)
  separate_arguments(command)
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/pages/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/pages
    COMMAND vitrine ${command} > ${PROJECT_BINARY_DIR}/pages/${file} DEPENDS vitrine VERBATIM)
  list(APPEND made ${PROJECT_BINARY_DIR}/pages/${file})
endforeach()
# Debian's policy requires gzip without name and time.
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/pages/vitrine.1.gz
  COMMAND gzip -9nc ${PROJECT_BINARY_DIR}/pages/vitrine.1 > ${PROJECT_BINARY_DIR}/pages/vitrine.1.gz
  DEPENDS ${PROJECT_BINARY_DIR}/pages/vitrine.1)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/pages/changelog.gz
  COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/cmake/debian_changelog > ${PROJECT_BINARY_DIR}/pages/changelog.gz
  DEPENDS cmake/debian_changelog ${PROJECT_BINARY_DIR}/pages/vitrine.1)
add_custom_target(vitrine_pages DEPENDS ${made} ${PROJECT_BINARY_DIR}/pages/vitrine.1.gz
  ${PROJECT_BINARY_DIR}/pages/changelog.gz)
set(shared_libraries "")
if(VITRINE_C)
  list(APPEND shared_libraries vitrine_c)
endif()
if(TARGET vitrine_mpi)
  list(APPEND shared_libraries vitrine_mpi)
  install(TARGETS vitrine_mpi LIBRARY DESTINATION lib/vitrine COMPONENT mpi)
endif()
add_custom_target(product ALL DEPENDS vitrine vitrine_library ${shared_libraries} vitrine_pages)  # everything that is installed

install(TARGETS vitrine RUNTIME COMPONENT program)
install(DIRECTORY models/default DESTINATION ${CMAKE_INSTALL_DATADIR}/vitrine/models COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/pages/vitrine.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/pages/vitrine.bash RENAME vitrine
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/pages/_vitrine
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/pages/vitrine.fish
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

set(package_dir lib/cmake/vitrine)
install(TARGETS vitrine_library EXPORT vitrine ARCHIVE DESTINATION lib COMPONENT library)
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/vitrine DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libvitrine-dev COMPONENT library)
install(EXPORT vitrine NAMESPACE vitrine:: FILE vitrine-targets.cmake DESTINATION ${package_dir} COMPONENT library)
configure_package_config_file(cmake/vitrine-config.cmake.in ${PROJECT_BINARY_DIR}/vitrine-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/vitrine-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/vitrine-config.cmake ${PROJECT_BINARY_DIR}/vitrine-config-version.cmake
  DESTINATION ${package_dir} COMPONENT library)
configure_file(cmake/vitrine.pc.in ${PROJECT_BINARY_DIR}/vitrine.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/vitrine.pc DESTINATION lib/pkgconfig COMPONENT library)

if(VITRINE_C)
  install(TARGETS vitrine_c LIBRARY DESTINATION lib COMPONENT clibrary NAMELINK_COMPONENT library)
  install(FILES src/capi/vitrine_c.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
  configure_file(cmake/vitrine-c.pc.in ${PROJECT_BINARY_DIR}/vitrine-c.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/vitrine-c.pc DESTINATION lib/pkgconfig COMPONENT library)
endif()

# The Debian packages: vitrine (the program), libvitrine-dev (the static library, the headers), libvitrine-c1 (the shared
# library of the C interface), and vitrine-mpi (for several machines) if it was built.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME vitrine)
# The maintainer is the one who builds the package (DEBEMAIL, DEBFULLNAME). Without them the address is one of the
# reserved domain .invalid (RFC 2606).
set(CPACK_PACKAGE_CONTACT "The vitrine authors <nobody@vitrine.invalid>")
if(DEFINED ENV{DEBEMAIL})
  set(CPACK_PACKAGE_CONTACT "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program library)
if(VITRINE_C)
  list(APPEND CPACK_COMPONENTS_ALL clibrary)
endif()
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
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "libvitrine-c1 (= ${PROJECT_VERSION}), libfmt-dev, libpcre2-dev, libutf8proc-dev, libyaml-dev, zlib1g-dev, libcurl4-openssl-dev, libssl-dev, pkg-config | pkgconf")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "transformer language-model engine (library)
The engine of vitrine as a static library, with one header and a CMake
package.")

set(CPACK_DEBIAN_CLIBRARY_PACKAGE_NAME libvitrine-c1)
set(CPACK_DEBIAN_CLIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_CLIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENT_CLIBRARY_DESCRIPTION "transformer language-model engine (C library)
The engine of vitrine as a shared library with a stable C interface.")

set(packages "program|vitrine" "library|libvitrine-dev")
if(TARGET vitrine_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  list(APPEND packages "mpi|vitrine-mpi")
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME vitrine-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "vitrine, openmpi-bin")
  set(CPACK_COMPONENT_MPI_DESCRIPTION "transformer language-model engine (several machines)
What vitrine opens when mpirun or srun has started it on several machines.")
endif()
if(VITRINE_C)
  list(APPEND packages "clibrary|libvitrine-c1")
endif()

# Debian's policy requires a copyright file and a changelog in each package.
foreach(package ${packages})
  string(REPLACE "|" ";" package ${package})
  list(GET package 0 component)
  list(GET package 1 name)
  install(FILES cmake/debian_copyright RENAME copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
    COMPONENT ${component})
  install(FILES ${PROJECT_BINARY_DIR}/pages/changelog.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
    COMPONENT ${component})
endforeach()
include(CPack)
cpack_add_component(program)
cpack_add_component(library)
if(TARGET vitrine_mpi)
  cpack_add_component(mpi)
endif()
if(VITRINE_C)
  cpack_add_component(clibrary)
endif()
