# make          builds build/vitrine
# make run      installs missing packages, builds, and shows the default model
# make test     installs missing packages, builds, and runs all tests
# make install PREFIX=/usr/local [DESTDIR=…]   program, library, headers, CMake package, man page, completions
# make package  Debian packages, in build/packages
# make wheel    the Python package, in build/wheels
# make python-test   installs what it needs into build/venv-test, and tests the Python package there
# make bench    micro benchmarks of the kernels
# make dev-test, make tsan-test   the tests with ASan and UBSan, with TSan
# make fuzz-test     installs clang and fuzzes every reader of files for some seconds; see fuzz/README.md
# make aarch64-test  installs a cross compiler, qemu and libraries, and runs the kernel and golden tests for 64-bit ARM
# make web      bundles the page of `vitrine look` (web/), after installing the packages that its lock file lists
# make page-test     installs Chromium and drives pages in it
# make cluster-test  installs Open MPI and Slurm and runs one training run on several ranks and hosts
# make mixer-test    adds a mixer by the recipe of CONTRIBUTING, builds the program, and tries every command with it
# make format   formats the sources with clang-format-14
JOBS ?= 2
PREFIX ?= /usr/local
SOURCES = $(shell git ls-files '*.h' '*.cpp' 2>/dev/null)

# The progress line of ninja: steps that are done, all steps, seconds.
export NINJA_STATUS = [%f of %t, %e s] 
# On a terminal each step says what it does.
say = @if [ -t 1 ]; then echo "$(1)"; fi

.PHONY: all build packages product run test install package bench dev-test tsan-test fuzz fuzz-test aarch64-test web page-test cluster-test mixer-test wheel python-test format clean

all:
	$(call say,Configuring the build)
	@cmake --preset release >/dev/null
	$(call say,Compiling: some minutes the first time)
	@cmake --build --preset release -j $(JOBS) --target vitrine

build:
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)

packages:
	@tools/install_packages.sh

run: packages
	@$(MAKE) --no-print-directory all
	@tools/show.sh build/vitrine

test: packages
	@$(MAKE) --no-print-directory build
	@ctest --preset release -j $(JOBS)

product: packages
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target product

install: product
	@cmake --install build --prefix "$(PREFIX)"

package: product
	@cd build && cpack
	@ls build/packages/*.deb

bench: build
	build/bench/kernels_bench

dev-test tsan-test: packages
	cmake --preset $(@:-test=)
	cmake --build --preset $(@:-test=) -j $(JOBS)
	ctest --preset $(@:-test=) -j $(JOBS)

fuzz: packages
	@tools/install_packages.sh tools/fuzz_packages.txt
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz -j $(JOBS)

fuzz-test: fuzz
	@ctest --preset fuzz -j $(JOBS)

aarch64-test: packages
	@tools/install_packages.sh tools/aarch64_packages.txt
	@[ -d build-aarch64/libraries/usr ] || tools/aarch64_libraries.sh build-aarch64/libraries
	@tests/aarch64_test.sh "$(CURDIR)"

# tools/with_node.sh supplies Node.js and the packages that web/package-lock.json lists.
web:
	@tools/with_node.sh npm run --silent build

page-test: packages
	@command -v chromium >/dev/null || tools/install_packages.sh tools/page_packages.txt
	@$(MAKE) --no-print-directory all
	@tools/with_node.sh node smallest_test.mjs ../build/vitrine
	@tools/with_node.sh node page_test.mjs ../build/vitrine

# The build looks for Open MPI when it is configured.
cluster-test: packages
	@tools/install_packages.sh tools/cluster_packages.txt
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target vitrine vitrine_mpi
	@tests/cluster_test.sh build/vitrine
	@tests/network_test.sh build/vitrine
	@tests/slurm_test.sh build/vitrine

mixer-test: packages
	@tests/mixer_test.sh build-mixer

# The wheel has the library of the release build.
wheel: packages
	@tools/install_packages.sh tools/python_packages.txt
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target vitrine_library
	@tools/python.sh wheel

python-test: wheel
	@cmake --build --preset release -j $(JOBS) --target vitrine vitrine_c
	@tools/python.sh test

format:
	clang-format-14 -i $(SOURCES)

clean:
	rm -rf build build-dev build-tsan build-fuzz build-aarch64 build-mixer
