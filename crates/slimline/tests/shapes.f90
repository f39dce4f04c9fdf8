module world
  implicit none
  type particle
    real(8) :: x, v, m
    integer :: id
  end type
  type(particle) :: fixed(100)
  real(8), allocatable :: grid(:,:)
  integer :: counts(50)
end module
program main
  use world
  implicit none
  integer :: i, j
  allocate(grid(30, 20))
  do i = 1, 100
    fixed(i)%x = i
    fixed(i)%v = 2 * i
  end do
  do j = 1, 20
    do i = 1, 30
      grid(i, j) = i * j
    end do
  end do
  do i = 1, 50
    counts(i) = i
  end do
  call move(fixed)
  print '(f0.1,1x,f0.1,1x,i0)', fixed(3)%x, total(grid), counts(50)
  deallocate(grid)
contains
  subroutine move(p)
    type(particle), intent(inout) :: p(100)
    integer :: k
    do k = 1, 100
      p(k)%x = p(k)%x + p(k)%v
    end do
  end subroutine
  real(8) function total(a)
    real(8), intent(in) :: a(30, 20)
    integer :: k, l
    total = 0
    do l = 1, 20
      do k = 1, 30
        total = total + a(k, l)
      end do
    end do
  end function
end program
