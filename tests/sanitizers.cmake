# The tests of the sanitizer builds, registered in the main build so that one ctest run
# covers everything. Each build is itself a test (a fixture): what it would run is never
# older than the sources, and a build that breaks fails its tests instead of hiding them.
foreach(preset asan tsan fuzz)
  add_test(NAME build/${preset}
    COMMAND ${CMAKE_COMMAND} --build --preset ${preset}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(build/${preset} PROPERTIES LABELS build TIMEOUT 900
    FIXTURES_SETUP build_${preset})
endforeach()

foreach(preset asan tsan)
  set(dir ${CMAKE_SOURCE_DIR}/build/${preset})
  foreach(source ${UNIT_TESTS})
    get_filename_component(name ${source} NAME_WE)
    add_test(NAME ${preset}/${name} COMMAND ${dir}/tests/${name})
    set_tests_properties(${preset}/${name} PROPERTIES LABELS ${preset} TIMEOUT 180
      FIXTURES_REQUIRED build_${preset} ENVIRONMENT "${SANITIZER_ENV}")
  endforeach()
endforeach()

foreach(file ${BATS_FILES})
  get_filename_component(name ${file} NAME_WE)
  topicfs_add_bats(bats-asan/${name} ${file} asan ${CMAKE_SOURCE_DIR}/build/asan/topicfs
    3 600)
  set_tests_properties(bats-asan/${name} PROPERTIES FIXTURES_REQUIRED build_asan)
endforeach()

# Thread checking is worth its time where threads meet: parallel writers, readers, kills
# and unmounts, and readers that block.
foreach(file fault/concurrency.bats bats/streams.bats)
  get_filename_component(name ${file} NAME_WE)
  topicfs_add_bats(bats-tsan/${name} ${CMAKE_CURRENT_SOURCE_DIR}/${file} tsan
    ${CMAKE_SOURCE_DIR}/build/tsan/topicfs 6 600)
  set_tests_properties(bats-tsan/${name} PROPERTIES FIXTURES_REQUIRED build_tsan)
endforeach()

# The simulator has one thread: addresses and undefined behaviour are what can go wrong.
add_test(NAME asan/sim
  COMMAND ${CMAKE_SOURCE_DIR}/build/asan/tests/sim/sim_run --seeds 300 --first 1)
set_tests_properties(asan/sim PROPERTIES LABELS asan TIMEOUT 300
  FIXTURES_REQUIRED build_asan ENVIRONMENT "${SANITIZER_ENV}")
