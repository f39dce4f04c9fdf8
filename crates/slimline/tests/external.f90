! External procedures: nobody but the linker knows that they belong together.
subroutine phys_step(n, temp, label)
  implicit none
  integer, intent(in) :: n
  real(8), intent(inout) :: temp(n)
  character(len=*), intent(in) :: label
  integer :: i, at
  do i = 1, n
    at = 1 + mod(i, len(label))
    temp(i) = temp(i) + ichar(label(at:at))
  end do
end subroutine
subroutine phys_(n, cells)
  implicit none
  integer, intent(in) :: n
  real(8), intent(inout) :: cells(n, *)
  integer :: i
  real(8) :: dt, loss(8)
  common /physics/ dt, loss
  do i = 1, n
    cells(i, 2) = cells(i, 1) * dt + loss(3)
  end do
end subroutine
program main
  implicit none
  external :: phys_step, phys_
  real(8), save :: temp(40), cells(30, 2)
  character(len=8) :: name
  real(8) :: dt, loss(8)
  common /physics/ dt, loss
  temp = 1
  cells = 2
  dt = 0.5
  loss = 1
  name = 'abcdefgh'
  call phys_step(size(temp), temp, name)
  call phys_(30, cells)
  print '(f0.1,1x,f0.1)', temp(3), cells(7, 2)
end program
