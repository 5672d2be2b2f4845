# frozen_string_literal: true

# Find libweft for an extension. Both extconf.rb files use this file.
#
# 1. In a checkout: the shared library in build/.
# 2. Installed: through pkg-config.
# 3. In a gem: the sources that `rake vendor` has copied to ext/libweft. Neither meson nor a library
#    is necessary. liburing and libev are used if their headers exist.
#
# `gem install weft -- --enable-bundled` selects the sources, `--disable-bundled` excludes them.
require "mkmf"

module Libweft
  CHECKOUT = File.expand_path("../../..", __dir__)
  BUNDLED = File.expand_path("libweft", __dir__)

  # Files that need a library.
  OPTIONAL = {
    "WEFT_HAS_URING" => %r{\Abackend/uring/},
    "WEFT_HAS_EV" => %r{\Abackend/ready/ev(_loop)?\.c\z},
  }.freeze

  # Functions that some C libraries lack. src/base/libc.h has replacements.
  LIBC_FUNCTIONS = {
    "backtrace" => "execinfo.h", "epoll_pwait2" => "sys/epoll.h", "on_exit" => "stdlib.h",
    "pidfd_open" => "sys/pidfd.h", "posix_spawn_file_actions_addclosefrom_np" => "spawn.h",
    "preadv2" => "sys/uio.h", "pthread_attr_setaffinity_np" => "pthread.h",
    "pthread_cond_clockwait" => "pthread.h", "sem_clockwait" => "semaphore.h",
    "sigabbrev_np" => "string.h", "strerrordesc_np" => "string.h"
  }.freeze

  module_function

  # Set the flags of mkmf. Return the names of bundled source files, usually none.
  def find
    bundled = enable_config("bundled")
    return use_sources if bundled && File.directory?(BUNDLED)
    return [] if use_checkout || use_installed
    return use_sources if bundled.nil? && File.directory?(BUNDLED)

    abort "libweft is missing: install it, so that pkg-config finds it, or install the gem with its sources"
  end

  def use_checkout
    library = File.join(CHECKOUT, "build")
    return false unless File.exist?(File.join(CHECKOUT, "include/weft/selector.h")) &&
                        File.exist?(File.join(library, "libweft.so"))

    $INCFLAGS = "-I#{CHECKOUT}/include #{$INCFLAGS}"
    $LDFLAGS = "-L#{library} -Wl,-rpath,#{library} #{$LDFLAGS}"
    have_library("weft", "weft_selector_open", "weft/selector.h")
  end

  def use_installed
    return false unless pkg_config("weft") && have_header("weft/selector.h")

    # The library may be in a directory that the dynamic linker does not search.
    library = `pkg-config --variable=libdir weft`.strip
    $LDFLAGS += " -Wl,-rpath,#{library}" unless library.empty? || library.start_with?("/usr/lib")
    have_library("weft", "weft_selector_open", "weft/selector.h")
  end

  def use_sources
    $INCFLAGS = "-I#{BUNDLED}/include #{$INCFLAGS}"
    missing = []
    missing << "WEFT_HAS_URING" unless have_header("liburing.h") && have_library("uring", "io_uring_submit_and_get_events")
    missing << "WEFT_HAS_EV" unless have_header("ev.h") && have_library("ev", "ev_loop_new")
    have_library("m")
    @defines = (OPTIONAL.keys - missing) + libc_defines
    Dir.glob("**/*.c", base: source_folder).sort.reject { |name| missing.any? { |key| OPTIONAL[key].match?(name) } }
  end

  def libc_defines
    LIBC_FUNCTIONS.select { |name, header| have_func(name, header) }.keys.map { |name| "WEFT_HAS_#{name.upcase}" }
  end

  def source_folder = File.join(BUNDLED, "src")

  # The assembly of this machine. Other machines use ucontext.
  def assembly
    name = { "x86_64" => "arch/x86_64.S", "aarch64" => "arch/aarch64.S" }[RbConfig::CONFIG["host_cpu"]]
    [name].compact
  end

  def object_name(source) = "libweft-#{source.tr("/", "-").sub(/\.[cS]\z/, "")}.o"

  # Append rules for the bundled sources to the Makefile. Names of files are not unique across folders.
  def write_rules(sources)
    return if sources.empty?

    flags = "-std=gnu11 -O2 -g -fPIC -pthread -fvisibility=hidden -fno-tree-slp-vectorize " \
            "-fstack-clash-protection -D_GNU_SOURCE -U_FILE_OFFSET_BITS " \
            "-I#{source_folder} -I#{BUNDLED}/include #{@defines.map { |name| "-D#{name}" }.join(" ")}"
    File.open("Makefile", "a") do |makefile|
      (sources + assembly).each do |source|
        makefile.puts "#{object_name(source)}: #{source_folder}/#{source}",
                      "\t$(ECHO) compiling libweft #{source}",
                      "\t$(Q) $(CC) #{flags} -c -o $@ $<", ""
      end
    end
  end

  # Create the Makefile of an extension: its own files and the bundled ones.
  def create_makefile(target, sources)
    own = Dir.glob("*.c", base: $srcdir).map { |name| name.sub(/\.c\z/, ".o") }
    $objs = own + sources.map { |source| object_name(source) }
    $objs += assembly.map { |source| object_name(source) } unless sources.empty?
    TOPLEVEL_BINDING.receiver.send(:create_makefile, target)
    write_rules(sources)
  end
end
