! slimline: what a Fortran program says to slimline: which regions it is timed by, and whose accesses are counted by a name of
! their own.
!
!     slimline header --fortran > slimline.f90
!
!     use slimline
!     call slimline_region_begin("sorting")
!     call slimline_watch(a, n * n * 8, "a")
!     ...
!     call slimline_unwatch(a)
!     call slimline_region_end()
!
! Where slimline has not preloaded the library that listens all of this does nothing. Nothing has to be linked, but for -ldl where
! the C library is glibc before 2.34.
module slimline
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_procpointer, c_funptr, c_int32_t, c_int64_t, c_intptr_t, &
    c_loc, c_null_char, c_null_funptr, c_ptr, c_size_t
  implicit none
  private
  public :: slimline_region_begin, slimline_region_end, slimline_watch, slimline_unwatch

  ! Accesses to so many bytes are counted by this name from here on. Of an array all elements must follow each other in memory.
  interface slimline_watch
    module procedure watch_bytes, watch_bytes_of_default_kind
  end interface

  abstract interface
    subroutine of_nothing() bind(c)
    end subroutine
    subroutine of_name(name) bind(c)
      import :: c_char
      character(kind=c_char), intent(in) :: name(*)
    end subroutine
    subroutine of_memory(start, bytes, name) bind(c)
      import :: c_char, c_ptr, c_size_t
      type(c_ptr), value :: start
      integer(c_size_t), value :: bytes
      character(kind=c_char), intent(in) :: name(*)
    end subroutine
    subroutine of_start(start) bind(c)
      import :: c_ptr
      type(c_ptr), value :: start
    end subroutine
    function of_error() bind(c) result(error)
      import :: c_ptr
      type(c_ptr) :: error
    end function
  end interface

  interface
    ! The C library's: which function of a name the process has, as the program runs.
    function dlsym(handle, name) bind(c, name="dlsym") result(found)
      import :: c_char, c_funptr, c_intptr_t
      integer(c_intptr_t), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr) :: found
    end function
  end interface

  ! A function of the library, and whether it was looked for. Who finds it at the same time as another finds the same.
  type :: mark
    logical :: is_known = .false.
    type(c_funptr) :: function = c_null_funptr
  end type
  type(mark), save :: begin_mark, end_mark, watch_mark, unwatch_mark

contains

  ! The calling thread enters a region of that name, within those that it is in.
  subroutine slimline_region_begin(name)
    character(len=*), intent(in) :: name
    procedure(of_name), pointer :: begin
    if (.not. found(begin_mark, "slimline_region_begin")) return
    call c_f_procpointer(begin_mark%function, begin)
    call begin(trim(name) // c_null_char)
  end subroutine

  ! It leaves the region that it entered last.
  subroutine slimline_region_end()
    procedure(of_nothing), pointer :: end
    if (.not. found(end_mark, "slimline_region_end")) return
    call c_f_procpointer(end_mark%function, end)
    call end()
  end subroutine

  ! Memory is of any type and rank, which flang does not say as the standard does.
  subroutine watch_bytes(start, bytes, name)
    !GCC$ ATTRIBUTES NO_ARG_CHECK :: start
    !DIR$ IGNORE_TKR(tkrdm) start
    type(*), intent(in), target :: start(*)
    integer(c_int64_t), intent(in) :: bytes
    character(len=*), intent(in) :: name
    procedure(of_memory), pointer :: watch
    if (.not. found(watch_mark, "slimline_watch")) return
    call c_f_procpointer(watch_mark%function, watch)
    call watch(c_loc(start), int(bytes, c_size_t), trim(name) // c_null_char)
  end subroutine

  subroutine watch_bytes_of_default_kind(start, bytes, name)
    !GCC$ ATTRIBUTES NO_ARG_CHECK :: start
    !DIR$ IGNORE_TKR(tkrdm) start
    type(*), intent(in), target :: start(*)
    integer(c_int32_t), intent(in) :: bytes
    character(len=*), intent(in) :: name
    call watch_bytes(start, int(bytes, c_int64_t), name)
  end subroutine

  ! Accesses to what begins there are no longer counted so: before the memory is freed, or becomes another's.
  subroutine slimline_unwatch(start)
    !GCC$ ATTRIBUTES NO_ARG_CHECK :: start
    !DIR$ IGNORE_TKR(tkrdm) start
    type(*), intent(in), target :: start(*)
    procedure(of_start), pointer :: unwatch
    if (.not. found(unwatch_mark, "slimline_unwatch")) return
    call c_f_procpointer(unwatch_mark%function, unwatch)
    call unwatch(c_loc(start))
  end subroutine

  logical function found(of, name)
    type(mark), intent(inout) :: of
    character(len=*), intent(in) :: name
    procedure(of_error), pointer :: error
    type(c_funptr) :: function
    type(c_ptr) :: said
    if (.not. of%is_known) then
      of%function = dlsym(0_c_intptr_t, name // c_null_char)
      if (.not. c_associated(of%function)) then
        ! It is no error of the program's.
        function = dlsym(0_c_intptr_t, "dlerror" // c_null_char)
        if (c_associated(function)) then
          call c_f_procpointer(function, error)
          said = error()
        end if
      end if
      of%is_known = .true.
    end if
    found = c_associated(of%function)
  end function

end module slimline
